package nodecli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

// eventKinds are the kinds of objects that have events.
var eventKinds = []string{"ni", "app", "adapter", "port", "host", "config", "actor"}

const eventTargets = "ni/ID|app/ID|adapter/ID/INDEX|port/LABEL|host|config or none"

func newEvents(a commands) *cobra.Command {
	var output string
	q := nodeapi.EventQuery{}
	cmd := &cobra.Command{
		Use:     "events [ni/ID|app/ID|adapter/ID/INDEX|port/LABEL|host|config]",
		Short:   "Show events: state changes, failures, repairs, crashes",
		Example: "  edgespan events --last 20\n  edgespan events ni/demo -w\n  edgespan events --kind uplink",
		Long: `events shows the newest events since the daemon's start, oldest first: changed
states, published and refused configs, applies with their number of changes, failed
operations with their command and output, operations that succeed again, repairs of
what other programs changed, helper processes that died, changed ports, networks that
moved to another port, drains of ports, and crashed actors. A failure that persists is
shown once.

ID is a UUID, or a display name that only one network or app has; an object that is gone
has only its UUID. The events of an app include those of its adapters. With -w it follows
new events; -o json then prints one object per line.`,
		Args: term.RangeArgs(0, 2, eventTargets),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				kind, id, err := readTarget("events", eventKinds, args, eventTargets)
				if err != nil {
					return err
				}
				if q.Of = kind; id != "" {
					q.Of += "/" + id
				} else if kind != "host" && kind != "config" {
					return term.Required("ID", eventTargets)
				}
			}
			if q.Kind != "" && !slices.Contains(nodeapi.EventKinds(), q.Kind) {
				return term.NotOneOf("--kind", q.Kind, nodeapi.EventKinds())
			}
			if q.Last < 0 {
				return term.Invalid("-n", q.Last, "1 or more, or 0 for all")
			}
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			return a.events(cmd.Context(), q, output)
		},
		ValidArgsFunction: a.completeTargets(nodeapi.WatchKinds(), false),
	}
	term.OutputFlag(cmd, &output)
	cmd.Flags().IntVarP(&q.Last, "last", "n", 100, "number of events to show; 0 for all")
	cmd.Flags().StringVar(&q.Kind, "kind", "", "show only events of this kind, such as uplink")
	cmd.Flags().BoolVarP(&q.Follow, "watch", "w", false, "follow new events until interrupted")
	return cmd
}

var eventHead = []string{"TIME", "KIND", "OBJECT", "NAME", "WHAT", "ERROR"}

func eventRow(e nodeapi.Event) []string {
	failure := e.Error
	if e.Command != "" {
		failure = e.Command + ": " + e.Error
	}
	return []string{e.Time.Local().Format("15:04:05.000"), e.Kind, e.Object, e.Name, e.Text, failure}
}

func (a commands) events(ctx context.Context, q nodeapi.EventQuery, output string) error {
	if q.Follow {
		l := a.NewLive(output, eventHead, []int{12, 9, 44, 8, 40})
		return a.follow(ctx, func(ctx context.Context, c *nodeapi.Client) error {
			return c.Events(ctx, q, func(e nodeapi.Event) error { return l.Print(e, e.Object, eventRow(e)) })
		})
	}
	ctx, c, done := a.Connect(ctx)
	defer done()
	events := []nodeapi.Event{}
	if err := c.Events(ctx, q, func(e nodeapi.Event) error { events = append(events, e); return nil }); err != nil {
		return err
	}
	s := term.Shown{Data: events, Empty: "no events"}
	for _, e := range events {
		s.Names = append(s.Names, e.Object)
	}
	s.Table = func(wide bool) *term.Table {
		t := &term.Table{Head: eventHead, Wide: wide}
		for _, e := range events {
			row := eventRow(e)
			if wide {
				row[0] = e.Time.UTC().Format(time.RFC3339Nano)
			}
			t.Add(row...)
		}
		return t
	}
	return a.Show(s, output)
}
