package model

import (
	"errors"
	"strings"

	"edgespan/config"
	"edgespan/config/configdb"
)

func fault(k ErrorKind, format string, args ...any) *RequestError {
	return &RequestError{Kind: k, Text: config.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *RequestError  { return fault(Invalid, format, args...) }
func notFound(format string, args ...any) *RequestError { return fault(NotFound, format, args...) }
func conflict(format string, args ...any) *RequestError { return fault(Conflict, format, args...) }
func tooLarge(format string, args ...any) *RequestError { return fault(TooLarge, format, args...) }

// isTooLarge reports whether an error is a fault of kind TooLarge.
func isTooLarge(err error) bool {
	var f *RequestError
	return errors.As(err, &f) && f.Kind == TooLarge
}

// alreadyTaken returns the fault for a name or id that must be unique. It contains the text of the original's database
// error, which clients look for (seed's reference §1.8).
func alreadyTaken(what, which string, by int64) *RequestError {
	return conflict("%s %s: duplicate key value violates unique constraint: it is that of %s %d: must be another one",
		what, which, what, by)
}

// documentError converts an error of config/configdb to a fault and returns other errors unchanged.
func documentError(err error, secrets []configdb.Secret) error {
	var e *configdb.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Kind == configdb.TooLarge {
		return tooLarge("%s", e.Text)
	}
	text := e.Hide(secrets).Error()
	if e.Kind == configdb.Malformed {
		return invalid("%s", text)
	}
	return conflict("%s", text)
}

// formatPythonList formats a list of texts as Python does, as in the original's messages.
func formatPythonList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = "u'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(t) + "'"
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
