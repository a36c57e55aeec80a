package nodecli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

// differs is the exit code of diff if something differs, as in diff(1).
const differs = term.StatusError(term.ExitError)

func newDiff(a commands) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "diff [ni/ID]",
		Short:   "Show how the host differs from the running config",
		Example: "  edgespan diff\n  edgespan diff ni/demo",
		Long: `diff compares the host with the running config: what is missing, changed or
unexpected, object by object, and why the daemon could not put it right. Objects that edgespan did
not create are ignored. ID is a UUID, or a display name that only one network has. plan -f compares
with another config.

It exits 0 if nothing differs and 1 if something does, like diff(1). Errors have their usual exit
codes and go to stderr; an error with exit code 1 leaves stdout empty.`,
		Args: term.RangeArgs(0, 2, "ni/ID or none"),
		RunE: func(cmd *cobra.Command, args []string) error {
			of := ""
			if len(args) > 0 {
				kind, id, err := readTarget("diff", []string{"ni"}, args, "ni/ID")
				switch {
				case err != nil:
					return err
				case id == "":
					return term.Required("ID", "ni/ID")
				}
				of = kind + "/" + id
			}
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			return a.diff(cmd.Context(), of, output)
		},
		ValidArgsFunction: a.completeTargets([]string{"ni"}, false),
	}
	term.OutputFlag(cmd, &output)
	return cmd
}

func (a commands) diff(ctx context.Context, of, output string) error {
	ctx, c, done := a.Connect(ctx)
	defer done()
	ds, err := c.Diff(ctx, of)
	if err != nil {
		return err
	}
	s := term.Shown{Data: map[string]any{"differences": ds}, Empty: "no differences"}
	for _, d := range ds {
		s.Names = append(s.Names, d.Kind+"/"+d.ID)
	}
	s.Table = func(wide bool) *term.Table {
		t := &term.Table{Head: []string{"OWNER", "CHANGE", "KIND", "ID", "HAVE", "WANT", "ERROR"}, Wide: wide}
		for _, d := range ds {
			have, want := d.Have, d.Want
			if d.Change == nodeapi.Changed {
				have, want = onlyIn(d.Have, d.Want), onlyIn(d.Want, d.Have)
			}
			t.Add(d.Owner, d.Change, d.Kind, d.ID, have, want, d.Why)
		}
		return t
	}
	if err := a.Show(s, output); err != nil {
		return err
	}
	if len(ds) > 0 {
		return differs
	}
	return nil
}

// onlyIn returns the lines of a that b lacks.
func onlyIn(a, b string) string {
	theirs := strings.Split(b, "\n")
	own := slices.DeleteFunc(strings.Split(a, "\n"), func(l string) bool { return slices.Contains(theirs, l) })
	return strings.Join(own, "\n")
}
