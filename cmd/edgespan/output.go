package main

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

// outputs are the forms of every command that shows something.
var outputs = []string{"table", "wide", "json", "yaml", "name"}

func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", outputs[0], "form: "+strings.Join(outputs, ", "))
	// The flag was defined one line above: the only error there is can't be.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp))
}

func checkOutput(output string) error {
	if !slices.Contains(outputs, output) {
		return usagef("-o: is %q: %s are allowed", output, strings.Join(outputs, " "))
	}
	return nil
}

// shown is an answer in every form of -o.
type shown struct {
	data  any                    // of json and yaml
	names []string               // of name, a line each
	table func(wide bool) *table // of table and wide
	empty string                 // said on stderr in place of a table without rows
}

func (s streams) show(what shown, output string) error {
	switch output {
	case "json":
		return s.printJSON(what.data)
	case "yaml":
		return s.printYAML(what.data)
	case "name":
		for _, n := range what.names {
			if _, err := fmt.Fprintln(s.Out, printable(n)); err != nil {
				return err
			}
		}
		return nil
	}
	t := what.table(output == "wide")
	if len(t.rows) == 0 && what.empty != "" {
		s.say("%s", what.empty)
		return nil
	}
	return t.write(s.Out, s.Color)
}

func (s streams) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	_, err := s.Out.Write(escapeJSON(b.Bytes()))
	return err
}

// escapeJSON spells what JSON need not escape and a terminal may obey: DEL, the control
// characters above it, and the ends of lines and paragraphs. All of these stand in strings.
func escapeJSON(text []byte) []byte {
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

// printYAML goes through JSON, so that both forms have the same names and order. Where the
// library would write what a terminal obeys, or a key of several lines, which it writes in a
// way that nobody can read, JSON takes its place: it is YAML too.
func (s streams) printYAML(v any) error {
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
	if bytes.ContainsFunc(out, func(r rune) bool { return r != '\n' && printable(string(r)) != string(r) }) || !plainKeys(plain) {
		return s.printJSON(v)
	}
	_, err = s.Out.Write(out)
	return err
}

// plainKeys says whether each key is one line.
func plainKeys(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if printable(k) != k || !plainKeys(inner) {
				return false
			}
		}
	case []any:
		return !slices.ContainsFunc(v, func(inner any) bool { return !plainKeys(inner) })
	}
	return true
}
