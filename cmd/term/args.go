package term

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/config"
)

// UnknownCommand returns the error for a word that is no subcommand of cmd.
func UnknownCommand(cmd *cobra.Command, word string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return Usagef("%s: unknown command %s: must be %s", cmd.CommandPath(), config.Quote(word), config.OrList(names))
}

// ExactArgs checks that there are n arguments. what names them in the error; "" for none.
func ExactArgs(n int, what string) cobra.PositionalArgs { return RangeArgs(n, n, what) }

// RangeArgs checks that there are lo to hi arguments. what names them in the error.
func RangeArgs(lo, hi int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < lo || len(args) > hi {
			return wrongArgs(cmd, len(args), what)
		}
		return nil
	}
}

// AtLeast checks that there are n arguments or more. what names them in the error.
func AtLeast(n int, what string) cobra.PositionalArgs { return RangeArgs(n, math.MaxInt, what) }

// wrongArgs returns the error for a wrong number of arguments.
func wrongArgs(cmd *cobra.Command, n int, what string) error {
	got := "no arguments"
	if n > 0 {
		got = Many(n, "argument")
	}
	must := "must be " + what
	if what == "" {
		must = "takes none"
	}
	return Usagef("%s: got %s: %s: see '%s --help'", cmd.Name(), got, must, cmd.CommandPath())
}

// Group returns a command that only has subcommands.
func Group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return UnknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
}

// FileArgs refuses a file that is named without -f, and prints the correct form.
func FileArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if len(args) == 1 && !cmd.Flags().Changed("file") {
		return Usagef("%s: got %s without -f: run '%s -f %s'", cmd.Name(), config.Quote(args[0]), cmd.CommandPath(),
			args[0])
	}
	return wrongArgs(cmd, len(args), "")
}

// List splits the values of a flag such as --nodes a,b and drops empty ones.
func List(words []string) []string {
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

// RevisionOf parses a revision, with or without the quotes of an ETag.
func RevisionOf(flag, text string) (uint64, error) {
	if n := len(text); n > 2 && text[0] == '"' && text[n-1] == '"' {
		text = text[1 : n-1]
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, Invalid(flag, text, "the number of a revision")
	}
	return n, nil
}

// OneOf defines -o with these values; the first is the default.
func OneOf(cmd *cobra.Command, output *string, forms ...string) {
	cmd.Flags().StringVarP(output, "output", "o", forms[0], "output format: "+strings.Join(forms, ", "))
	// The only possible error is an undefined flag, and the line above defines it.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))
	inner := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		for _, f := range forms {
			if *output == f {
				return inner(cmd, args)
			}
		}
		return NotOneOf("-o", *output, forms)
	}
}

// ParseSince parses the time from which on something is asked for: how long before now, as 90s or 48h, or a time of RFC
// 3339. "" is the zero time.
func ParseSince(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, Invalid(flag, text, "a duration above 0, as 90s or 48h, or a time, as 2026-01-31T10:00:00Z")
	}
	return at, nil
}
