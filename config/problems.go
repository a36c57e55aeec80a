package config

import (
	"fmt"
	"strings"
)

// The usual problems and expectations, so that the same fault reads the same in every kind of document:
// PATH: problem: expectation.
const (
	// Required is the problem of a value that is missing.
	Required = "required"
	// UnknownField is the problem of a key that nothing reads.
	UnknownField = "unknown field"
)

// Invalid is the problem of a text that is not one of those expected.
func Invalid(s string) string { return InvalidValue(Quote(s)) }

// InvalidValue is Invalid of a value as a message shows it.
func InvalidValue(shown string) string { return "invalid value " + shown }

// InvalidType is the problem of a value of another type than expected; kind may have an article.
func InvalidType(kind string) string {
	_, name, hasArticle := strings.Cut(kind, " ")
	if !hasArticle {
		name = kind
	}
	return "invalid type " + name
}

// DuplicateKey is the problem of a key that an object has more than once.
func DuplicateKey(times int) string { return fmt.Sprintf("duplicate key (%d times)", times) }

// TooMany is the problem of a number of things above its bound.
func TooMany(things string, n int) string { return fmt.Sprintf("too many %s (%d)", things, n) }

// TooLong is the problem of a length above its bound.
func TooLong(n int, unit string) string { return fmt.Sprintf("too long (%d %s)", n, unit) }

// MustBe is an expectation.
func MustBe(what string) string { return "must be " + what }

// AtMost is the expectation of a number with an upper bound.
func AtMost(n int) string { return fmt.Sprintf("must be at most %d", n) }

// OneOf is the expectation of one of several words.
func OneOf(words []string) string { return MustBe(OrList(words)) }
