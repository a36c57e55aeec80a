package nodecli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/fleetcli"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

// eventKinds are the kinds of objects that have events.
var eventKinds = []string{"ni", "app", "adapter", "port", "host", "config", "actor"}

const eventTargets = "ni/ID|app/ID|adapter/ID/INDEX|port/LABEL|host|config or none"

func newEvents(a commands) *cobra.Command {
	var output, object, since string
	q := nodeapi.EventQuery{}
	cmd := &cobra.Command{
		Use:   "events [ni/ID|app/ID|adapter/ID/INDEX|port/LABEL|host|config]",
		Short: "Show events: changes, failures, repairs, each with its cause",
		Example: "  edgespan events --last 20\n  edgespan events ni/demo -w\n  edgespan events --kind uplink\n" +
			"  edgespan events --object ni/demo --since 1h --why",
		Long: `events shows the newest events, oldest first: changed states, published, refused,
confirmed and undone configs, applies with their number of changes, failed operations
with their command and output, operations that succeed again, repairs of what other
programs changed, helper processes that died, changed ports, networks that moved to
another port, drains of ports, and crashed actors. A failure that persists is shown
once; an event that repeats within 10 minutes is counted.

The daemon keeps the newest 2,000 events in its state folder, and leaves each object a
share, so that one that flaps displaces its own events. --since takes a duration, as
90s or 48h, or a time, as 2026-01-31T10:00:00Z.

--why shows what led to each event, a line for each step: the config with its generation
and who brought it, what began the apply of the network, the failed operation, the state.

ID is a UUID, or a display name that only one network or app has; an object that is gone
has only its UUID. The events of an app include those of its adapters. With -w it follows
new events; -o json then prints one object per line.`,
		Args: term.RangeArgs(0, 2, eventTargets),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if q.Of, err = eventsOf(args, object); err != nil {
				return err
			}
			if q.Since, err = term.ParseSince("--since", since, time.Now()); err != nil {
				return err
			}
			if since != "" && !cmd.Flags().Changed("last") {
				q.Last = 0
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
	cmd.Flags().StringVar(&object, "object", "", "show only events of this object, as the argument does")
	cmd.Flags().StringVar(&since, "since", "", "show only events since this time or for this long; all of them without -n")
	cmd.Flags().BoolVar(&q.Why, "why", false, "show what led to each event")
	cmd.Flags().BoolVarP(&q.Follow, "watch", "w", false, "follow new events until interrupted")
	return cmd
}

// eventsOf returns the object whose events are asked for, "" for all.
func eventsOf(args []string, object string) (of string, err error) {
	switch {
	case object != "" && len(args) > 0:
		return "", term.Exclusive("--object", "the argument")
	case object != "":
		args = []string{object}
	case len(args) == 0:
		return "", nil
	}
	kind, id, err := readTarget("events", eventKinds, args, eventTargets)
	switch {
	case err != nil:
		return "", err
	case id != "":
		return kind + "/" + id, nil
	case kind != "host" && kind != "config":
		return "", term.Required("ID", eventTargets)
	}
	return kind, nil
}

var eventHead = []string{"TIME", "KIND", "OBJECT", "NAME", "WHAT", "ERROR"}

func (a commands) events(ctx context.Context, q nodeapi.EventQuery, output string) error {
	words := q.Why && (output == "table" || output == "wide")
	if q.Follow {
		l := a.NewLive(output, eventHead, []int{12, 9, 44, 8, 40})
		return a.follow(ctx, func(ctx context.Context, c *nodeapi.Client) error {
			return c.Events(ctx, q, func(e nodeapi.Event) error {
				if words {
					_, err := fmt.Fprint(a.Out, fleetcli.ExplainedEvent(e))
					return err
				}
				return l.Print(e, e.Object, fleetcli.EventRow(e))
			})
		})
	}
	ctx, c, done := a.Connect(ctx)
	defer done()
	list := []nodeapi.Event{}
	if err := c.Events(ctx, q, func(e nodeapi.Event) error { list = append(list, e); return nil }); err != nil {
		return err
	}
	if words && len(list) > 0 {
		var b strings.Builder
		for _, e := range list {
			b.WriteString(fleetcli.ExplainedEvent(e))
		}
		_, err := fmt.Fprint(a.Out, b.String())
		return err
	}
	s := term.Shown{Data: list, Empty: "no events"}
	for _, e := range list {
		s.Names = append(s.Names, e.Object)
	}
	s.Table = func(wide bool) *term.Table {
		t := &term.Table{Head: eventHead, Wide: wide}
		for _, e := range list {
			row := fleetcli.EventRow(e)
			if wide {
				row[0] = e.Time.UTC().Format(time.RFC3339Nano)
			}
			t.Add(row...)
		}
		return t
	}
	return a.Show(s, output)
}
