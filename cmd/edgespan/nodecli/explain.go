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

// explainTargets are the forms of explain's argument.
const explainTargets = "ni/ID|app/ID[/INDEX]|adapter/ID/INDEX|port/LABEL"

func newExplain(a commands) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "explain " + explainTargets,
		Short: "Explain why a network, an app, an adapter or a port is ready or not",
		Long: `explain follows the causes of an object's state: the network of an adapter, the port
of a network, the operation that failed with its command, output, number of tries and the time of
the next one; or what the object waits for.

Of a network it shows the port in use, since when and why, and how each port that the network may
use was judged: its class, cost, loss and latency, and why it is in no better class. Of a port it
shows its probes, its drain, and which networks use it or not and why. Of an adapter it shows the
access rules that were hit, as last read: edgespan acl show reads them now.

ID is a UUID, or a display name that only one network or one app has: explain app/web/0.

It exits 0 whether the object is ready or not; use edgespan wait for that.`,
		Example: "  edgespan explain ni/demo\n  edgespan explain app/web/0 -o json\n  edgespan explain port/wan",
		Args:    term.RangeArgs(1, 2, explainTargets),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, id, err := readTarget("explain", nodeapi.ExplainKinds(), args, explainTargets)
			switch {
			case err != nil:
				return err
			case id == "":
				return term.Required("ID", explainTargets)
			}
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			return a.explain(cmd.Context(), kind, id, output)
		},
		ValidArgsFunction: a.completeTargets(nodeapi.ExplainKinds(), false),
	}
	term.OutputFlag(cmd, &output)
	return cmd
}

func (a commands) explain(ctx context.Context, kind, id, output string) error {
	ctx, c, done := a.Connect(ctx)
	defer done()
	x, err := c.Explain(ctx, kind, id)
	if err != nil {
		return err
	}
	if output == "table" || output == "wide" {
		_, err := fmt.Fprint(a.Out, Explained(x, time.Now()))
		return err
	}
	return a.Show(term.Shown{Data: x, Names: append([]string{x.Object}, objectsOf(x.Causes)...)}, output)
}

// Explained formats an explanation: each cause is indented below its consequence.
func Explained(x nodeapi.Explanation, now time.Time) string {
	var b strings.Builder
	b.WriteString(x.Object)
	if x.Name != "" {
		fmt.Fprintf(&b, " %q", x.Name)
	}
	fmt.Fprintf(&b, ": %s\n", term.Printable(x.Summary))
	if x.Warning != "" {
		fmt.Fprintf(&b, "  warning: %s\n", term.Printable(x.Warning))
	}
	writeCauses(&b, x.Causes, "  ", now)
	writeHits(&b, x, now)
	writeUplinks(&b, x.Uplinks, now)
	if x.Port != nil {
		writePort(&b, *x.Port, now)
	}
	return b.String()
}

func writeCauses(b *strings.Builder, causes []nodeapi.Cause, indent string, now time.Time) {
	for _, c := range causes {
		text := c.Text
		if c.Object != "" {
			text = c.Object + ": " + text
		}
		fmt.Fprintf(b, "%sbecause %s\n", indent, term.Printable(text))
		for _, part := range [][2]string{{"command", c.Command}, {"error", c.Error}, {"tried", lastTried(c, now)}} {
			if part[1] != "" {
				fmt.Fprintf(b, "%s  %-8s %s\n", indent, part[0], term.Printable(part[1]))
			}
		}
		writeCauses(b, c.Causes, indent+"  ", now)
	}
}

func lastTried(c nodeapi.Cause, now time.Time) string {
	if c.Attempts == 0 {
		return ""
	}
	s := fmt.Sprintf("%d times", c.Attempts)
	if c.Attempts == 1 {
		s = "once"
	}
	if c.Since != nil {
		s += ", first " + ago(*c.Since, now)
	}
	switch {
	case c.Retry == nil:
	case c.Retry.After(now):
		s += ", again in " + c.Retry.Sub(now).Round(100*time.Millisecond).String()
	default:
		s += ", again now"
	}
	return s
}

func ago(at, now time.Time) string {
	return now.Sub(at).Round(100*time.Millisecond).String() + " ago"
}

func objectsOf(causes []nodeapi.Cause) []string {
	var out []string
	for _, c := range causes {
		if c.Object != "" {
			out = append(out, c.Object)
		}
		out = append(out, objectsOf(c.Causes)...)
	}
	return out
}
