package term

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"edgespan/config"
)

// Errors of flags and arguments, each in the form "name: problem: what is expected". The name is spelled as the user
// types it: "--role", "-o", "NODE".

// Required returns the error for a missing flag or argument. hint says what belongs there or where it comes from, and
// may be empty.
func Required(name, hint string) error {
	if hint == "" {
		return Usagef("%s: required", name)
	}
	return Usagef("%s: required: %s", name, hint)
}

// Invalid returns the error for an invalid value; must completes "must be …".
func Invalid(name string, value any, must string) error {
	return Usagef("%s: invalid value %s: must be %s", name, shown(value), must)
}

// NotOneOf returns the error for a value that is none of the allowed words.
func NotOneOf(name string, value any, allowed []string) error {
	return Invalid(name, value, config.OrList(allowed))
}

// Exclusive returns the error for flags or arguments of which only one may be given.
func Exclusive(names ...string) error {
	last := len(names) - 1
	return Usagef("%s and %s: mutually exclusive", strings.Join(names[:last], ", "), names[last])
}

// Requires returns the error for a flag that requires another.
func Requires(name, other string) error { return Usagef("%s: requires %s", name, other) }

// RequiredTogether returns the error for two flags that must be given both or not at all.
func RequiredTogether(one, other string) error {
	return Usagef("%s and %s: only one of them given: must be both or neither", one, other)
}

// flagFault converts cobra's error about a flag to the same form.
func flagFault(cmd *cobra.Command, err error) error {
	var (
		missing *pflag.NotExistError
		empty   *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		fault   = err.Error()
	)
	switch {
	case errors.As(err, &missing):
		fault = flagName(missing.GetSpecifiedName(), missing.GetSpecifiedShortnames()) + ": unknown flag"
	case errors.As(err, &empty):
		fault = flagName(empty.GetSpecifiedName(), empty.GetSpecifiedShortnames()) + ": requires a value"
	case errors.As(err, &invalid):
		fault = invalidFlag(invalid)
	}
	return Usagef("%s: see '%s --help'", fault, cmd.CommandPath())
}

// flagName returns a flag with its dashes; short is not empty for a short flag.
func flagName(name, short string) string {
	if short != "" {
		return "-" + name
	}
	return "--" + name
}

// invalidFlag returns the error for a flag's invalid value. The program's own flag types say what is expected; for the
// others it depends on the type.
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

// shown formats a value for a message: text is quoted and shortened, a number or a duration is unchanged.
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
