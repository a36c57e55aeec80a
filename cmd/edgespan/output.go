package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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

func (a *app) show(s shown, output string) error {
	switch output {
	case "json":
		return a.printJSON(s.data)
	case "yaml":
		return a.printYAML(s.data)
	case "name":
		for _, n := range s.names {
			if _, err := fmt.Fprintln(a.Out, printable(n)); err != nil {
				return err
			}
		}
		return nil
	}
	t := s.table(output == "wide")
	if len(t.rows) == 0 && s.empty != "" {
		a.say("%s", s.empty)
		return nil
	}
	return t.write(a.Out, a.Color)
}

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.Out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printYAML goes through JSON, so that both forms have the same names and order.
func (a *app) printYAML(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	out, err := yaml.JSONToYAML(text)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	_, err = a.Out.Write(out)
	return err
}
