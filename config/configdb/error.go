package configdb

import (
	"strings"

	"edgespan/config"
)

// Kind says whose fault an Error is.
type Kind uint8

// The kinds of errors, and the status that the API gives each.
const (
	Malformed Kind = iota + 1 // 400: the request itself is wrong
	Conflict                  // 409: it does not fit the documents
	TooLarge                  // 413: it would cost more than one may
)

// Error is why something can't be done with a document. Every error of this package is one,
// or wraps what a function that was handed in has said.
type Error struct {
	Kind Kind
	Text string

	path []string // to leaf
	leaf JSON     // a value that Text shows; nil for none
	hide string   // Text without it
}

func (e *Error) Error() string { return e.Text }

// Hide is the error without a value that lies at one of the secrets or below: the texts of
// keys operations show the value that stood in the way, to a writer who may not see it.
func (e *Error) Hide(secrets []Secret) *Error {
	if e.leaf == nil || !touches(secrets, e.path) {
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

// spell is a path of keys for a message.
func spell(path []string) string {
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

// shown is a value for a message, on one line and not too long.
func shown(v JSON) string {
	return strings.ToValidUTF8(config.Shorten(string(v)), "")
}
