package fleetcli

import (
	"fmt"
	"io"
	"strings"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/fleetapi"
)

func describeNode(c *fleetCall) error {
	n, err := c.client.Node(c.ctx, c.args[0])
	if err != nil {
		return err
	}
	if c.output != "table" && c.output != "wide" {
		return c.a.Show(term.Shown{Data: n, Names: []string{n.Name}}, c.output)
	}
	return writeNode(c.a.Out, n, c.output == "wide", c.a.Color)
}

// writeNode describes a node: its fields, the reason for its state, and a table for each list.
func writeNode(out io.Writer, n fleetapi.NodeDetail, wide, color bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: %s\n", term.Printable(n.Name), term.Printable(n.State), term.Printable(n.Why))
	for i, line := range n.Explain {
		if i == 0 && line == n.State+": "+n.Why {
			continue // already printed above
		}
		fmt.Fprintf(&b, "  %s\n", term.Printable(line))
	}
	for _, f := range []struct{ what, text string }{
		{"id", n.ID},
		{"connected", term.YesNo(n.Online)},
		{"ready", term.YesNo(n.Ready)},
		{"managed", term.YesNo(n.Managed)},
		{"current", runningText(n.Running)},
		{"desired", runningText(n.Desired)},
		{"source", n.Source},
		{"pending", n.Pending},
		{"local hold", n.Held},
		{"fallback", fallbackText(n.Fallback)},
		{"software", n.Software},
		{"firmware", n.Firmware},
		{"board", n.Board},
		{"last report", term.FormatTime(n.LastReport)},
		{"replica", n.Replica},
	} {
		if f.text != "" {
			fmt.Fprintf(&b, "%-12s %s\n", f.what, term.Printable(f.text))
		}
	}
	for _, t := range nodeTables(n, wide) {
		if len(t.Rows) > 0 {
			b.WriteByte('\n')
			if err := t.Write(&b, color); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprint(out, b.String())
	return err
}

// nodeTables returns a table for each list of a node; writeNode leaves out the empty ones.
func nodeTables(n fleetapi.NodeDetail, wide bool) []*term.Table {
	health := &term.Table{Head: []string{"HEALTH", "OK", "DETAIL"}, Wide: wide}
	for _, h := range n.Health {
		word := "ok"
		if !h.Good {
			word = "failed"
		}
		health.Add(h.Name, word, h.Detail)
	}
	actions := &term.Table{Head: []string{"ACTION", "STATE", "DETAIL"}, Wide: wide}
	for _, x := range n.Actions {
		actions.Add(x.Name, x.State, x.Detail)
	}
	failures := &term.Table{Head: []string{"FAILED CONFIG", "REASON", "WHEN", "ERROR"}, Wide: wide}
	for _, f := range n.Failures {
		failures.Add(f.MD5, f.Reason, term.FormatTime(&f.At), f.Why)
	}
	return []*term.Table{health, parameterTable(n, wide), actions, failures}
}

func runningText(r fleetapi.Running) string {
	return strings.TrimSpace(strings.TrimSpace(r.Generation) + " " + r.MD5)
}

func fallbackText(on bool) string {
	if !on {
		return ""
	}
	return "yes: it has no config, and removes nothing"
}
