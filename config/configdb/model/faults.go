package model

import (
	"errors"
	"strings"

	"edgespan/config"
	"edgespan/config/configdb"
)

func fault(k FaultKind, format string, args ...any) *Fault {
	return &Fault{Kind: k, Text: config.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *Fault  { return fault(Invalid, format, args...) }
func notFound(format string, args ...any) *Fault { return fault(NotFound, format, args...) }
func conflict(format string, args ...any) *Fault { return fault(Conflict, format, args...) }
func tooLarge(format string, args ...any) *Fault { return fault(TooLarge, format, args...) }

// isTooLarge says that something would cost too much.
func isTooLarge(err error) bool {
	var f *Fault
	return errors.As(err, &f) && f.Kind == TooLarge
}

// taken is the fault of a name or id that must be unique. The words are those of the database that
// the original had, which its clients look for (seed's reference §1.8).
func taken(what, which string, by int64) *Fault {
	return conflict("%s %s: duplicate key value violates unique constraint: it is that of %s %d: must be another one",
		what, which, what, by)
}

// ofDocument is an error of config/configdb as a fault; any other error stays what it is.
func ofDocument(err error, secrets []configdb.Secret) error {
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

// Python's way to write a list of texts, which the original's messages have.
func pythonList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = "u'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(t) + "'"
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
