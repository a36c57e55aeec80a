package nodecli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

func newWatch(a commands) *cobra.Command {
	var output string
	kinds := nodeapi.WatchKinds()
	allowed := strings.Join(kinds, "|") + " [ID] or none"
	cmd := &cobra.Command{
		Use:     "watch [" + strings.Join(kinds, "|") + " [ID]]",
		Short:   "Watch changes of networks, apps, adapters and ports",
		Example: "  edgespan watch\n  edgespan watch ni demo",
		Long: `watch prints a line for each change from now on, until it is interrupted. A slow
reader misses intermediate values, never the last one. ID can be the display name of a network or an
app if only one has it. -o json prints one object per line: {time, change, object}; the first ones
are the present objects, up to the line whose change is "synchronized".`,
		Args: term.RangeArgs(0, 2, allowed),
		RunE: func(cmd *cobra.Command, args []string) error {
			want, id := kinds, ""
			if len(args) > 0 {
				kind, i, err := readTarget("watch", kinds, args, allowed)
				if err != nil {
					return err
				}
				want, id = []string{kind}, i
			}
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			return a.watch(cmd.Context(), want, id, output)
		},
		ValidArgsFunction: a.completeTargets(kinds, true),
	}
	term.OutputFlag(cmd, &output)
	return cmd
}

func (a commands) watch(ctx context.Context, kinds []string, id, output string) error {
	l := a.NewLive(output, []string{"TIME", "CHANGE", "OBJECT", "NAME", "WHAT", "ERROR"}, []int{12, 8, 44, 8, 36})
	last := map[string]nodeapi.Resource{}
	known := false
	raw := output == "json" || output == "yaml"
	return a.follow(ctx, func(ctx context.Context, c *nodeapi.Client) error {
		id, err := watched(ctx, c, kinds[0], id)
		if err != nil {
			return err
		}
		return c.Watch(ctx, kinds, func(s nodeapi.Observed) error {
			if s.Change == nodeapi.Synchronized {
				known = true
				if raw {
					return l.Print(s, "", nil)
				}
				return nil
			}
			name := s.Object.Kind + "/" + s.Object.ID
			if id != "" && !strings.EqualFold(s.Object.ID, id) {
				return nil
			}
			old := last[name]
			last[name] = *s.Object
			if !known && !raw {
				return nil
			}
			what, failure := changesOf(old, *s.Object)
			if s.Change == nodeapi.Deleted {
				delete(last, name)
				what, failure = "", ""
			}
			return l.Print(s, name, []string{
				s.Time.Local().Format("15:04:05.000"), s.Change, name, displayName(*s.Object), what, failure,
			})
		})
	})
}
