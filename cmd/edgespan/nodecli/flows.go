package nodecli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

const flowTargets = "ni/ID|app/ID|adapter/ID/INDEX or none"

func newFlows(a commands) *cobra.Command {
	var output, app string
	q := nodeapi.FlowLogQuery{}
	cmd := &cobra.Command{
		Use:     "flows [ni/ID|app/ID|adapter/ID/INDEX]",
		Short:   "Show the flow log: who talked to whom, how much, by which rule",
		Example: "  edgespan flows --last 20\n  edgespan flows --app web -w\n  edgespan flows ni/demo --denied",
		Long: `flows shows the newest lines of the flow log, oldest first: one for each flow of each
adapter whose network has flowLog: true, once the flow has ended, and one every 5 minutes
while it goes on. LOCAL is the app's end,
REMOTE the other one, and NAT what the other end sees instead of LOCAL. RULE is the access
rule that allows the flow. What the rules deny has a line for some of the packets, with
"denied by" before the rule; so has a flow that they allow no more, which ended for that.
A line "lost" says how many lines are missing there.

ID is a UUID, or a display name that only one network or app has. The log outlasts the
daemon and its configs, up to 16 MiB. With -w it follows new lines; -o json then prints
one object per line.`,
		Args: term.RangeArgs(0, 2, flowTargets),
		RunE: func(cmd *cobra.Command, args []string) error {
			if app != "" {
				args = append(args, "app/"+app)
			}
			if len(args) > 0 {
				kind, id, err := readTarget("flows", []string{"ni", "app", "adapter"}, args, flowTargets)
				if err != nil {
					return err
				}
				if id == "" {
					return term.Required("ID", flowTargets)
				}
				q.Of = kind + "/" + id
			}
			if q.Last < 0 || q.Last > nodeapi.MaxFlowLines {
				return term.Invalid("-n", q.Last, fmt.Sprintf("1 to %d, or 0 for all", nodeapi.MaxFlowLines))
			}
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			return a.flows(cmd.Context(), q, output)
		},
		ValidArgsFunction: a.completeTargets([]string{"ni", "app"}, false),
	}
	term.OutputFlag(cmd, &output)
	cmd.Flags().IntVarP(&q.Last, "last", "n", 100, "number of lines to show; 0 for all")
	cmd.Flags().StringVar(&app, "app", "", "show only flows of this app (name or UUID)")
	cmd.Flags().BoolVar(&q.Denied, "denied", false, "show only flows that the rules deny")
	cmd.Flags().BoolVarP(&q.Follow, "watch", "w", false, "follow new lines until interrupted")
	return cmd
}

var flowHead = []string{"END", "APP", "DIRECTION", "PROTO", "LOCAL", "REMOTE", "RULE", "SENT", "RECEIVED", "TIME"}

// flowRow is one line of the log; wide adds what the narrow one leaves out.
func flowRow(r nodeapi.FlowRecord, wide bool) []string {
	at, format := r.End, "15:04:05.000"
	if at.IsZero() {
		at = r.Time
	}
	when := at.Local().Format(format)
	if wide {
		when = at.UTC().Format(time.RFC3339Nano)
	}
	if r.Kind == nodeapi.FlowsLost {
		row := []string{when, "", "lost", "", "", "", fmt.Sprintf("%d lines are missing", r.Lost), "", "", ""}
		if wide {
			row = append(row, "", "", "")
		}
		return row
	}
	rule := r.Rule
	if rule == "" {
		rule = r.BuiltIn
	}
	if r.Denied {
		rule = strings.TrimSuffix("denied by "+rule, " by ")
	}
	took := ""
	if !r.Start.IsZero() {
		took = r.End.Sub(r.Start).Round(time.Millisecond).String()
	}
	if r.Kind == nodeapi.FlowGoesOn {
		took = strings.TrimPrefix(took+", goes on", ", ")
	}
	name := r.Name
	if name == "" {
		name = r.Adapter
	}
	row := []string{when, name, r.Direction, r.Protocol, r.Local, r.Remote, rule, amount(r.PacketsOut, r.BytesOut),
		amount(r.PacketsIn, r.BytesIn), took}
	if wide {
		row = append(row, r.NAT, r.Adapter, r.RemoteName)
	}
	return row
}

// amount is packets and bytes as "12/3456".
func amount(packets, bytes uint64) string { return fmt.Sprintf("%d/%d", packets, bytes) }

func (a commands) flows(ctx context.Context, q nodeapi.FlowLogQuery, output string) error {
	if q.Follow {
		l := a.NewLive(output, flowHead, []int{12, 12, 9, 5, 21, 21, 16, 14, 14, 10})
		return a.follow(ctx, func(ctx context.Context, c *nodeapi.Client) error {
			return c.FlowLog(ctx, q, func(r nodeapi.FlowRecord) error {
				return l.Print(r, r.Adapter, flowRow(r, false))
			})
		})
	}
	ctx, c, done := a.Connect(ctx)
	defer done()
	list := []nodeapi.FlowRecord{}
	if err := c.FlowLog(ctx, q, func(r nodeapi.FlowRecord) error { list = append(list, r); return nil }); err != nil {
		return err
	}
	s := term.Shown{Data: list, Empty: "no flows"}
	for _, r := range list {
		s.Names = append(s.Names, r.Adapter)
	}
	s.Table = func(wide bool) *term.Table {
		t := &term.Table{Head: flowHead, Wide: wide}
		if wide {
			t.Head = append(t.Head[:len(t.Head):len(t.Head)], "NAT", "ADAPTER", "REMOTE NAME")
		}
		for _, r := range list {
			t.Add(flowRow(r, wide)...)
		}
		return t
	}
	return a.Show(s, output)
}
