package fleetcli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
)

const aboutPreview = `Nothing is written. Each node that would change is asked which actions it would take; a node that
is offline, unmanaged or of unknown hardware can't answer, and REASON says why. Without --set the
overrides are merged into the present ones, as with modify.

It exits 6 if nodes are still pending after --wait, or can't answer; edgespan actions ID
shows later answers for as long as the controller keeps them (config_actions_req_timeout_s).`

func bindTimeout(cmd *cobra.Command, c *fleetCall) {
	cmd.Flags().DurationVar(&c.timeout, "wait", 10*time.Second, "how long to wait for the nodes' answers")
}

func bindPreview(cmd *cobra.Command, c *fleetCall) {
	bindTimeout(cmd, c)
	cmd.Flags().BoolVar(&c.set, "set", false, "replace the present overrides, as set does")
}

// previewOf requests a preview and prints it.
func (c *fleetCall) previewOf(w ops.Write) error {
	p, err := c.client.Preview(c.ctx, w)
	if err != nil {
		return err
	}
	return c.preview(p)
}

func showActionsOf(c *fleetCall) error {
	p, err := c.client.PreviewResult(c.ctx, c.args[0])
	if err != nil {
		return err
	}
	return c.preview(p)
}

// previewPoll is the interval at which the command asks the controller for the nodes' answers.
const previewPoll = 200 * time.Millisecond

// preview prints what the nodes would do, once all have answered or --wait ends.
func (c *fleetCall) preview(p fleetapi.Preview) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.timeout)
	defer cancel()
	tick := time.NewTicker(previewPoll)
	defer tick.Stop()
	for waiting := true; waiting && !p.Complete; {
		select {
		case <-ctx.Done():
			waiting = false
		case <-tick.C:
			newer, err := c.client.PreviewResult(ctx, p.ID)
			switch {
			case err == nil:
				p = newer
			case ctx.Err() == nil:
				return err
			}
		}
	}
	if err := c.ctx.Err(); err != nil {
		return fmt.Errorf("wait for preview %s: %w", term.Printable(p.ID), err)
	}
	return c.showPreview(p)
}

func (c *fleetCall) showPreview(p fleetapi.Preview) error {
	nodes := slices.Sorted(maps.Keys(p.Nodes))
	t := &term.Table{Head: []string{"NODE", "STATE", "ACTIONS", "REASON"}, Wide: c.output == "wide"}
	counts := map[string]int{}
	for _, n := range nodes {
		x := p.Nodes[n]
		t.Add(n, x.State, actionNames(x.Actions), x.Why)
		counts[previewClass(x.State)]++
	}
	s := term.Shown{Data: p, Names: nodes, Empty: "no changes on any node", Table: func(bool) *term.Table { return t }}
	if err := c.a.Show(s, c.output); err != nil {
		return err
	}
	c.a.Printf("preview %s, available until %s: %d answered, %d pending, %d cannot answer, %d not asked",
		term.Printable(p.ID), p.Until.UTC().Format(time.RFC3339), counts["answered"], counts["pending"], counts["cannot"],
		counts["not asked"])
	var missing []string
	if n := counts["pending"]; n > 0 {
		missing = append(missing, term.Many(n, "node")+" pending")
	}
	if n := counts["cannot"]; n > 0 {
		missing = append(missing, term.Many(n, "node")+" can't answer")
	}
	if missing != nil {
		return &rest.Incomplete{Missing: missing}
	}
	return nil
}

// previewClass groups the states that a node has in a preview.
func previewClass(state string) string {
	switch state {
	case "answered", "pending":
		return state
	case "unchanged", "unmanaged":
		return "not asked"
	}
	return "cannot"
}

// actionNames formats actions for one cell. It marks those that the node has no command for.
func actionNames(actions []fleetapi.Action) string {
	var out []string
	for _, x := range actions {
		if x.Supported != nil && !*x.Supported {
			out = append(out, x.Name+" (unsupported)")
			continue
		}
		out = append(out, x.Name)
	}
	return strings.Join(out, " ")
}
