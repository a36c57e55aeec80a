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

// Outputs are the values of -o of every command that prints objects.
var Outputs = []string{"table", "wide", "json", "yaml", "name"}

// OutputFlag defines -o with all values.
func OutputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", Outputs[0], "output format: "+strings.Join(Outputs, ", "))
	// The only possible error is an undefined flag, and the line above defines it.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(Outputs, cobra.ShellCompDirectiveNoFileComp))
}

// CheckOutput refuses an unknown value of -o.
func CheckOutput(output string) error {
	if !slices.Contains(Outputs, output) {
		return NotOneOf("-o", output, Outputs)
	}
	return nil
}

// Shown is an answer in every format of -o.
type Shown struct {
	Data  any                    // json and yaml
	Names []string               // name: one per line
	Table func(wide bool) *Table // table and wide
	Empty string                 // printed on stderr instead of a table without rows
}

// Show prints an answer in the format of output.
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

// PrintJSON prints v as JSON, with control characters escaped.
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

// EscapeJSON escapes characters that JSON permits and a terminal may interpret: DEL, the C1 control characters, the
// line and paragraph separators, and those that set the order of others. They occur only in strings.
func EscapeJSON(text []byte) []byte {
	unsafe := func(r rune) bool { return r >= 0x7f && moves(r) }
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

// PrintYAML marshals to JSON first, so that both formats have the same names and order. It prints JSON, which is also
// YAML, where the library would write a control character, or an unreadable form of a key with several lines.
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

// plainKeys reports whether each key is one line.
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
