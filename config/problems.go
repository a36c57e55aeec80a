package config

import (
	"fmt"
	"strings"
)

// Common problems and expectations, so that the same fault reads the same in every kind of document: PATH: problem:
// expectation.
const (
	// Required is the problem of a missing value.
	Required = "required"
	// UnknownField is the problem of a key that the schema does not define.
	UnknownField = "unknown field"
)

// Invalid is the problem of a text that is not one of the expected words.
func Invalid(s string) string { return InvalidValue(Quote(s)) }

// InvalidValue is like Invalid for a value that is already formatted.
func InvalidValue(shown string) string { return "invalid value " + shown }

// InvalidType is the problem of a value of the wrong type; kind may begin with an article.
func InvalidType(kind string) string {
	_, name, hasArticle := strings.Cut(kind, " ")
	if !hasArticle {
		name = kind
	}
	return "invalid type " + name
}

// DuplicateKey is the problem of a key that occurs more than once in an object.
func DuplicateKey(times int) string { return fmt.Sprintf("duplicate key (%d times)", times) }

// TooMany is the problem of a count above its limit.
func TooMany(things string, n int) string { return fmt.Sprintf("too many %s (%d)", things, n) }

// TooLong is the problem of a length above its limit.
func TooLong(n int, unit string) string { return fmt.Sprintf("too long (%d %s)", n, unit) }

// MustBe returns the expectation "must be …".
func MustBe(what string) string { return "must be " + what }

// AtMost is the expectation of a number with an upper limit.
func AtMost(n int) string { return fmt.Sprintf("must be at most %d", n) }

// OneOf is the expectation of one of several words.
func OneOf(words []string) string { return MustBe(OrList(words)) }
