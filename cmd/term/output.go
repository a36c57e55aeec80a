package term

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// Outputs are the forms of every command that shows something.
var Outputs = []string{"table", "wide", "json", "yaml", "name"}

// OutputFlag defines -o with all forms.
func OutputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", Outputs[0], "output format: "+strings.Join(Outputs, ", "))
	// The flag was defined one line above: the only error there is can't be.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(Outputs, cobra.ShellCompDirectiveNoFileComp))
}

// CheckOutput refuses a form that there is not.
func CheckOutput(output string) error {
	if !slices.Contains(Outputs, output) {
		return NotOneOf("-o", output, Outputs)
	}
	return nil
}

// Shown is an answer in every form of -o.
type Shown struct {
	Data  any                    // of json and yaml
	Names []string               // of name, a line each
	Table func(wide bool) *Table // of table and wide
	Empty string                 // said on stderr in place of a table without rows
}

// Show prints an answer in the form that output names.
func (s Streams) Show(what Shown, output string) error {
	switch output {
	case "json":
		return s.PrintJSON(what.Data)
	case "yaml":
		return s.PrintYAML(what.Data)
	case "name":
		for _, n := range what.Names {
			if _, err := fmt.Fprintln(s.Out, Printable(n)); err != nil {
				return err
			}
		}
		return nil
	}
	t := what.Table(output == "wide")
	if len(t.Rows) == 0 && what.Empty != "" {
		s.Printf("%s", what.Empty)
		return nil
	}
	return t.Write(s.Out, s.Color)
}

// PrintJSON prints v as JSON that is harmless to a terminal.
func (s Streams) PrintJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	_, err := s.Out.Write(EscapeJSON(b.Bytes()))
	return err
}

// EscapeJSON spells what JSON need not escape and a terminal may obey: DEL, the control
// characters above it, and the ends of lines and paragraphs. All of these stand in strings.
func EscapeJSON(text []byte) []byte {
	unsafe := func(r rune) bool { return r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' }
	if !bytes.ContainsFunc(text, unsafe) {
		return text
	}
	out := make([]byte, 0, len(text)+16)
	for _, r := range string(text) {
		if unsafe(r) {
			out = fmt.Appendf(out, "\\u%04x", r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// PrintYAML goes through JSON, so that both forms have the same names and order. Where the
// library would write what a terminal obeys, or a key of several lines, which it writes in a
// way that nobody can read, JSON takes its place: it is YAML too.
func (s Streams) PrintYAML(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	out, err := yaml.JSONToYAML(text)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	if bytes.ContainsFunc(out, func(r rune) bool { return r != '\n' && Printable(string(r)) != string(r) }) ||
		!plainKeys(plain) {
		return s.PrintJSON(v)
	}
	_, err = s.Out.Write(out)
	return err
}

// plainKeys says whether each key is one line.
func plainKeys(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if Printable(k) != k || !plainKeys(inner) {
				return false
			}
		}
	case []any:
		return !slices.ContainsFunc(v, func(inner any) bool { return !plainKeys(inner) })
	}
	return true
}
