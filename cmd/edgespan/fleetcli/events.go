package fleetcli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/events"
	"edgespan/config/httpapi/fleetapi"
)

var eventsSpec = fleetSpec{
	use: "events [NODE]", short: "Show what happened on the nodes, or on one, with its cause",
	example: "  edgespan nodes events --kind failed --since 1h\n  edgespan nodes events edge-1 --object ni/blue --why",
	long: `events shows what nodes have reported, the oldest first: the controller keeps the newest
events of each node in memory, up to 200, and asks for new ones within a budget. An event may
take some seconds to arrive. 'edgespan events' on the node shows all that it has stored.

--object takes the object as on the node, with its UUID or its display name. --why shows what
led to each event. With -w it follows new events; -o json then prints one object per line.`,
	args: term.RangeArgs(0, 1, "one NODE, or none"), forms: tableForms, complete: firstNode,
	flags: func(cmd *cobra.Command, c *fleetCall) {
		cmd.Flags().IntVarP(&c.limit, "last", "n", 100, "number of events to show, at most 1000")
		cmd.Flags().StringVar(&c.events.Kind, "kind", "", "show only events of this kind, such as failed")
		cmd.Flags().StringVar(&c.events.Object, "object", "", "show only events of this object, such as ni/blue")
		cmd.Flags().StringVar(&c.age, "since", "", "show only events since this time or for this long")
		cmd.Flags().BoolVar(&c.events.Why, "why", false, "show what led to each event")
		cmd.Flags().BoolVarP(&c.watch, "watch", "w", false, "follow new events until interrupted")
	},
	run: showEvents,
}

var nodeEventHead = []string{"TIME", "NODE", "KIND", "OBJECT", "NAME", "WHAT", "ERROR"}

func showEvents(c *fleetCall) error {
	q := c.events
	var err error
	if q.Since, err = term.ParseSince("--since", c.age, time.Now()); err != nil {
		return err
	}
	if q.Kind != "" && !slices.Contains(events.Kinds(), q.Kind) {
		return term.NotOneOf("--kind", q.Kind, events.Kinds())
	}
	if q.Last = c.limit; q.Last < 1 || q.Last > fleetapi.MaxEvents {
		return term.Invalid("-n", q.Last, fmt.Sprintf("1 to %d", fleetapi.MaxEvents))
	}
	if len(c.args) > 0 {
		q.Node = c.args[0]
	}
	if c.watch {
		return c.followEvents(q)
	}
	got, err := c.client.Events(c.ctx, q)
	if err != nil {
		return err
	}
	c.warnSilent(got.Silent)
	if q.Why && (c.output == "table" || c.output == "wide") && len(got.Events) > 0 {
		return c.printExplained(got.Events)
	}
	s := term.Shown{Data: got, Empty: "no events"}
	for _, e := range got.Events {
		s.Names = append(s.Names, e.Node+" "+e.Object)
	}
	s.Table = func(wide bool) *term.Table {
		t := &term.Table{Head: nodeEventHead, Wide: wide}
		for _, e := range got.Events {
			t.Add(nodeEventRow(e, wide)...)
		}
		return t
	}
	return c.a.Show(s, c.output)
}

func (c *fleetCall) warnSilent(replicas []string) {
	if len(replicas) > 0 {
		c.a.Printf("no answer from %s: events of nodes that are connected there are missing",
			term.Printable(strings.Join(replicas, ", ")))
	}
}

func (c *fleetCall) printExplained(list []fleetapi.NodeEvent) error {
	var b strings.Builder
	for _, e := range list {
		b.WriteString(term.Printable(e.Node) + "  " + ExplainedEvent(e.Event))
	}
	_, err := fmt.Fprint(c.a.Out, b.String())
	return err
}

func nodeEventRow(e fleetapi.NodeEvent, wide bool) []string {
	row := EventRow(e.Event)
	if wide {
		row[0] = e.Time.UTC().Format(time.RFC3339Nano)
	}
	return slices.Insert(row, 1, e.Node)
}

// pollEvents is the pause between two questions; replicas ask each other through their store.
const pollEvents = 2 * time.Second

// followEvents prints events, then asks again and again and prints those that changed.
func (c *fleetCall) followEvents(q fleetapi.EventQuery) error {
	live := c.a.NewLive(c.output, nodeEventHead, []int{12, 12, 9, 44, 8, 40})
	last := map[string]uint64{} // the last change that was printed, by node
	first := true
	return c.again(func(ctx context.Context) error {
		if !first && !pause(ctx, pollEvents) {
			return nil
		}
		first = false
		got, err := c.client.Events(ctx, q)
		if err != nil {
			return err
		}
		q.Last = fleetapi.MaxEvents
		next := map[string]uint64{}
		for _, e := range got.Events {
			next[e.Node] = max(next[e.Node], last[e.Node], e.Changed())
			switch {
			case e.Changed() <= last[e.Node]:
				continue
			case q.Why && (c.output == "table" || c.output == "wide"):
				err = c.printExplained([]fleetapi.NodeEvent{e})
			default:
				err = live.Print(e, e.Node+" "+e.Object, nodeEventRow(e, c.output == "wide"))
			}
			if err != nil {
				return err
			}
		}
		for node, n := range next {
			last[node] = n
		}
		return nil
	})
}

// EventRow returns the cells of an event: its time, kind, object, name, text and error.
func EventRow(e events.Event) []string {
	failure := e.Error
	if e.Command != "" {
		failure = e.Command + ": " + e.Error
	}
	return []string{eventTime(e.Time, time.Now()), e.Kind, e.Object, e.Name, e.Text + repeated(e), failure}
}

// eventTime formats the time of an event; one of another day has its date.
func eventTime(at, now time.Time) string {
	if at, now = at.Local(), now.Local(); at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format("15:04:05.000")
	}
	return at.Format("01-02 15:04:05")
}

// repeated says how often an event happened, if more than once.
func repeated(e events.Event) string {
	if e.Count < 2 {
		return ""
	}
	return fmt.Sprintf(" (%d times, last %s)", e.Count, eventTime(e.Last, time.Now()))
}

// ExplainedEvent formats an event with what led to it, from the config on.
func ExplainedEvent(e events.Event) string {
	var b strings.Builder
	row := EventRow(e)
	name := e.Object
	if e.Name != "" {
		name += " (" + e.Name + ")"
	}
	fmt.Fprintf(&b, "%s  %s  %s: %s", row[0], e.Kind, term.Printable(name), term.Printable(row[4]))
	if row[5] != "" {
		b.WriteString(": " + term.Printable(row[5]))
	}
	b.WriteByte('\n')
	why := events.Why(e)
	if len(why) > 1 { // the last one is the event, and says more than the line above only of a config
		why = why[:len(why)-1]
	}
	for _, line := range why {
		b.WriteString("    " + term.Printable(line) + "\n")
	}
	return b.String()
}
