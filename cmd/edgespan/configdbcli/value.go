package configdbcli

import (
	"fmt"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/configdb"
	"edgespan/config/httpapi/rest"
)

// valueTypes are the values of --type.
var valueTypes = []string{"null", "int", "str", "json", "yaml", "bool"}

func valueFlags(f *pflag.FlagSet, c *factsCall) {
	f.StringVarP(&c.value, "value", "v", "", "value to write (default: stdin)")
	f.StringVarP(&c.typ, "type", "t", "", "type of --value: "+strings.Join(valueTypes, ", ")+" (default: a YAML scalar)")
}

// written returns the value that a command line gives: --value in the type of --type, or stdin (reference
// fuel-configdb §2.2; a value without a type follows the contract).
func (c *factsCall) written() (configdb.JSON, error) {
	given, formatted := c.changed("value"), c.changed("format")
	switch {
	case c.changed("type") && !slices.Contains(valueTypes, c.typ):
		return nil, term.NotOneOf("--type", c.typ, valueTypes)
	case given && formatted:
		return nil, term.Usagef("You shouldn't specify --format if you pass value in command line, specify --type instead.")
	case given && c.typ == "null":
		return nil, term.Usagef("You shouldn't specify a value for 'null' type because there can be only one.")
	case formatted && c.typ != "" && c.format != c.typ:
		return nil, term.Usagef("--format %s and --type %s: contradict each other: give --format for stdin, --type for "+
			"--value", c.format, c.typ)
	case c.typ == "null":
		return configdb.JSON("null"), nil
	case given:
		return coerced(c.typ, c.value)
	case c.typ == "json" || c.typ == "yaml":
		return c.stdin(c.typ)
	case c.typ != "":
		return nil, term.Usagef("--type specifies type for value provided in --value but there is not --value argument")
	}
	return c.stdin(c.format)
}

// coerced converts a text of the command line to a type.
func coerced(typ, text string) (configdb.JSON, error) {
	if !utf8.ValidString(text) {
		return nil, term.Usagef("--value: invalid value: must be UTF-8")
	}
	bad := func(allowed string) error {
		return term.Usagef("Bad value for '%s' type: %s: %s", typ, config.Quote(text), allowed)
	}
	switch typ {
	case "":
		return scalar(text)
	case "str":
		return configdb.Quote(text), nil
	case "int":
		n, ok := integer(text)
		if !ok {
			return nil, bad("must be a whole number")
		}
		return configdb.JSON(n), nil
	case "bool":
		switch strings.ToLower(text) {
		case "1", "true":
			return configdb.JSON("true"), nil
		case "0", "false":
			return configdb.JSON("false"), nil
		}
		return nil, bad("must be 1, true, 0 or false")
	case "json":
		v, err := configdb.Parse([]byte(text))
		if err != nil {
			return nil, bad(err.Error())
		}
		return v, nil
	}
	v, more, err := configdb.FromYAML([]byte(text))
	switch {
	case err != nil:
		return nil, bad(err.Error())
	case more:
		return nil, bad("must be one document")
	}
	return v, nil
}

// scalar parses a text as a YAML scalar.
func scalar(text string) (configdb.JSON, error) {
	const hint = "must be a YAML scalar; use --type str for any text, --type json or yaml for lists and mappings"
	v, more, err := configdb.FromYAML([]byte(text))
	switch {
	case err != nil:
		return nil, term.Usagef("--value: %w: %s", err, hint)
	case more || v[0] == '[' || v[0] == '{':
		return nil, term.Usagef("--value: invalid value %s: %s", config.Quote(text), hint)
	}
	return v, nil
}

// wholeNumber matches what Python's int accepts, which parses --type int in the original.
var wholeNumber = regexp.MustCompile(`^[+-]?[0-9]+(_[0-9]+)*$`)

// integer returns a whole number of any length as JSON.
func integer(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if !wholeNumber.MatchString(text) {
		return "", false
	}
	n, ok := new(big.Int).SetString(strings.ReplaceAll(text, "_", ""), 10)
	return n.String(), ok
}

// stdin parses the value on stdin in a format.
func (c *factsCall) stdin(form string) (configdb.JSON, error) {
	text, err := io.ReadAll(c.a.In)
	if err != nil {
		return nil, fmt.Errorf("read stdin: %w", err)
	}
	var v configdb.JSON
	more := false
	switch {
	case strings.TrimSpace(string(text)) == "":
		return nil, term.Usagef("stdin: empty: must be a value in %s, or give --value", strings.ToUpper(form))
	case form == "yaml":
		v, more, err = configdb.FromYAML(text)
	default:
		v, err = configdb.Parse(text)
	}
	if err != nil {
		return nil, &rest.Rejected{Faults: []string{"stdin: " + err.Error()}}
	}
	if more {
		c.a.Printf("Warning: will use only first document from YAML stream")
	}
	return v, nil
}
