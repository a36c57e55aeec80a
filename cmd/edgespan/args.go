package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

func commandNames(cmd *cobra.Command) string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return strings.Join(names, " ")
}

// exactArgs is cobra's check with our exit code and words.
func exactArgs(n int, what string) cobra.PositionalArgs { return rangeArgs(n, n, what) }

func rangeArgs(lo, hi int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < lo || len(args) > hi {
			return usagef("%s: has %d arguments: %s is allowed", cmd.Name(), len(args), what)
		}
		return nil
	}
}

// group is a command that only has others below it.
func group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("command: is %q: %s are allowed", args[0], commandNames(cmd))
			}
			return cmd.Help()
		},
	}
}

func atLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usagef("%s: has %d arguments: %s is allowed", cmd.Name(), len(args), what)
		}
		return nil
	}
}

func someArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s: has no argument: %s is allowed", cmd.Name(), what)
		}
		return nil
	}
}

// fileArgs refuses a file that is named without -f, and says how to name it.
func fileArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if len(args) == 1 && !cmd.Flags().Changed("file") {
		return usagef("%s: has %q without -f: type %s -f %s", cmd.Name(), args[0], cmd.CommandPath(), args[0])
	}
	return usagef("%s: has %d arguments beside -f: none is allowed", cmd.Name(), len(args))
}

// list splits what flags such as --nodes a,b took, and drops what is empty.
func list(words []string) []string {
	var out []string
	for _, w := range words {
		for part := range strings.SplitSeq(w, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}

// revisionOf reads a revision; an ETag's quotes may stand around it.
func revisionOf(flag, text string) (uint64, error) {
	if n := len(text); n > 2 && text[0] == '"' && text[n-1] == '"' {
		text = text[1 : n-1]
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, usagef("%s: is %q: the number of a revision is allowed", flag, text)
	}
	return n, nil
}

// oneOf is a flag -o that knows some forms only; the first is the default.
func oneOf(cmd *cobra.Command, output *string, forms ...string) {
	cmd.Flags().StringVarP(output, "output", "o", forms[0], "form: "+strings.Join(forms, ", "))
	// The flag was defined one line above: the only error there is can't be.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))
	inner := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		for _, f := range forms {
			if *output == f {
				return inner(cmd, args)
			}
		}
		return usagef("-o: is %q: %s are allowed", *output, strings.Join(forms, " "))
	}
}
