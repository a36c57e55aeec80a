package term

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"edgespan/config"
)

// The faults of flags and arguments, each in the form "name: problem: what is expected". A name is spelled as it is
// typed: "--role", "-o", "NODE".

// Required is the fault of a flag or an argument that was left out; hint says what belongs there or where it comes
// from, and may be empty.
func Required(name, hint string) error {
	if hint == "" {
		return Usagef("%s: required", name)
	}
	return Usagef("%s: required: %s", name, hint)
}

// Invalid is the fault of a value; must completes "must be …".
func Invalid(name string, value any, must string) error {
	return Usagef("%s: invalid value %s: must be %s", name, shown(value), must)
}

// NotOneOf is the fault of a value that is none of the words allowed.
func NotOneOf(name string, value any, allowed []string) error {
	return Invalid(name, value, config.OrList(allowed))
}

// Exclusive is the fault of flags or arguments of which only one may be given.
func Exclusive(names ...string) error {
	last := len(names) - 1
	return Usagef("%s and %s: mutually exclusive", strings.Join(names[:last], ", "), names[last])
}

// Needs is the fault of a flag that has no meaning without another.
func Needs(name, other string) error { return Usagef("%s: requires %s", name, other) }

// Together is the fault of two flags that are given both or not at all.
func Together(one, other string) error {
	return Usagef("%s and %s: only one of them given: must be both or neither", one, other)
}

// flagFault is what cobra found wrong with a flag, in the same form.
func flagFault(cmd *cobra.Command, err error) error {
	var (
		missing *pflag.NotExistError
		empty   *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		fault   = err.Error()
	)
	switch {
	case errors.As(err, &missing):
		fault = dashed(missing.GetSpecifiedName(), missing.GetSpecifiedShortnames()) + ": unknown flag"
	case errors.As(err, &empty):
		fault = dashed(empty.GetSpecifiedName(), empty.GetSpecifiedShortnames()) + ": requires a value"
	case errors.As(err, &invalid):
		fault = invalidFlag(invalid)
	}
	return Usagef("%s: see '%s --help'", fault, cmd.CommandPath())
}

// dashed is a flag as it was typed: the first of several short ones is the one that counts.
func dashed(name, short string) string {
	if short != "" {
		return "-" + name
	}
	return "--" + name
}

// invalidFlag says what a flag's value must be: a flag of ours says so itself, of others the type tells.
func invalidFlag(err *pflag.InvalidValueError) string {
	flag, name := err.GetFlag(), "--"+err.GetFlag().Name
	if why := err.Unwrap().Error(); strings.HasPrefix(why, "invalid value") {
		return name + ": " + why
	}
	must := map[string]string{"bool": "true or false", "int": "a whole number", "uint64": "a whole number, 0 or more",
		"duration": "a duration such as 500ms, 30s or 2m"}[flag.Value.Type()]
	if must == "" {
		return fmt.Sprintf("%s: invalid value %s: %v", name, config.Quote(err.GetValue()), err.Unwrap())
	}
	return Invalid(name, err.GetValue(), must).Error()
}

// shown is a value in a message: a text in quotes and no longer than anyone reads, a number or a duration as it is.
func shown(v any) string {
	switch v := v.(type) {
	case string:
		return config.Quote(v)
	case error:
		return config.Quote(v.Error())
	case fmt.Stringer:
		return v.String()
	}
	return fmt.Sprint(v)
}
