package term

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// CommandNames are the commands below cmd, for the error of one that is not there.
func CommandNames(cmd *cobra.Command) string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return strings.Join(names, " ")
}

// ExactArgs is cobra's check with our exit code and words.
func ExactArgs(n int, what string) cobra.PositionalArgs { return RangeArgs(n, n, what) }

// RangeArgs wants lo to hi arguments; what says which.
func RangeArgs(lo, hi int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < lo || len(args) > hi {
			return Usagef("%s: has %d arguments: %s is allowed", cmd.Name(), len(args), what)
		}
		return nil
	}
}

// Group is a command that only has others below it.
func Group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return Usagef("command: is %q: %s are allowed", args[0], CommandNames(cmd))
			}
			return cmd.Help()
		},
	}
}

// AtLeast wants n arguments or more.
func AtLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return Usagef("%s: has %d arguments: %s is allowed", cmd.Name(), len(args), what)
		}
		return nil
	}
}

// SomeArgs wants one argument or more, and says otherwise that there is none.
func SomeArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usagef("%s: has no argument: %s is allowed", cmd.Name(), what)
		}
		return nil
	}
}

// FileArgs refuses a file that is named without -f, and says how to name it.
func FileArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if len(args) == 1 && !cmd.Flags().Changed("file") {
		return Usagef("%s: has %q without -f: type %s -f %s", cmd.Name(), args[0], cmd.CommandPath(), args[0])
	}
	return Usagef("%s: has %d arguments beside -f: none is allowed", cmd.Name(), len(args))
}

// List splits what flags such as --nodes a,b took, and drops what is empty.
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

// RevisionOf reads a revision; an ETag's quotes may stand around it.
func RevisionOf(flag, text string) (uint64, error) {
	if n := len(text); n > 2 && text[0] == '"' && text[n-1] == '"' {
		text = text[1 : n-1]
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, Usagef("%s: is %q: the number of a revision is allowed", flag, text)
	}
	return n, nil
}

// OneOf is a flag -o that knows some forms only; the first is the default.
func OneOf(cmd *cobra.Command, output *string, forms ...string) {
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
		return Usagef("-o: is %q: %s are allowed", *output, strings.Join(forms, " "))
	}
}
