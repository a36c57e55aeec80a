package configdb

import (
	"strings"

	"edgespan/config"
)

// Kind is the cause of an Error.
type Kind uint8

// The kinds of errors, and the status that the API gives each.
const (
	Malformed Kind = iota + 1 // 400: the request itself is wrong
	Conflict                  // 409: the request does not fit the documents
	TooLarge                  // 413: the request would exceed a limit
)

// Error reports why an operation on a document is impossible. Every error of this package is an Error, or wraps an
// error of a function that the caller passed in.
type Error struct {
	Kind Kind
	Text string

	path []string // path of leaf
	leaf JSON     // a value that Text shows; nil: none
	hide string   // Text without leaf
}

func (e *Error) Error() string { return e.Text }

// Hide returns the error without the value in it if that value is at or below one of the secrets. Errors of keys
// operations show the value that blocked a path, which the writer may not be permitted to see.
func (e *Error) Hide(secrets []Secret) *Error {
	if e.leaf == nil || !isSecretPath(secrets, e.path) {
		return e
	}
	return &Error{Kind: e.Kind, Text: e.hide}
}

func malformed(format string, args ...any) *Error {
	return &Error{Kind: Malformed, Text: config.Sprintf(format, args...)}
}

func conflict(format string, args ...any) *Error {
	return &Error{Kind: Conflict, Text: config.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) *Error {
	return &Error{Kind: TooLarge, Text: config.Sprintf(format, args...)}
}

// formatPath formats a path for a message.
func formatPath(path []string) string {
	if len(path) == 0 {
		return "the document"
	}
	return config.FormatPath(path)
}

// kindOf names the type of a value for a message: "an object", "null".
func kindOf(v JSON) string {
	if len(v) == 0 {
		return "nothing"
	}
	switch v[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// showValue formats a value for a message, shortened.
func showValue(v JSON) string {
	return strings.ToValidUTF8(config.Shorten(string(v)), "")
}
