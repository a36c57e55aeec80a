package controller

import (
	"errors"
	"io"
	"testing"

	"edgespan/config/fleet"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
)

// Every read is answered from what the controller has, without a message to a node. The one question that needs nodes,
// which actions a change would entail, is a preview of its own.
func TestReadsAskNoNode(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.synced(c, "n0")
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.settled()
		n := r.nodes["n0"]
		words := func() (sum int) {
			r.settled()
			n.mu.Lock()
			defer n.mu.Unlock()
			for _, count := range n.heard {
				sum += count
			}
			return sum
		}
		ctx, before := r.Context(), words()
		reads := map[string]func() error{
			"config":   func() error { _, err := c.Config(ctx, ops.ConfigQuery{Node: "n0"}); return err },
			"paths":    func() error { _, err := c.Paths(ctx, ops.PathsQuery{Paths: [][]string{{"*"}}}); return err },
			"explain":  func() error { _, err := c.Explain(ctx, "n0", nil); return err },
			"metadata": func() error { _, err := c.Metadata(ctx, "node"); return err },
			"topology": func() error { _, err := c.Topology(ctx); return err },
			"diff":     func() error { _, err := c.Diff(ctx, 0, 1); return err },
			"history":  func() error { _, err := c.History(ctx, fleetapi.HistoryQuery{}); return err },
			"nodes":    func() error { _, err := c.Nodes(ctx); return err },
			"node":     func() error { _, err := c.Node(ctx, "n0"); return err },
			"rollouts": func() error { _, err := c.Rollouts(ctx); return err },
			"export":   func() error { _, _, err := c.Export(ctx, false); return err },
			"peers":    func() error { _, err := c.Peers(ctx); return err },
			"peer":     func() error { _, err := c.Peer(ctx, "n0"); return err },
			"clusters": func() error { _, err := c.Clusters(ctx); return err },
			"boards":   func() error { _, err := c.Hardware(ctx); return err },
			"backup": func() error {
				send, err := c.Backup(ctx, "1")
				if err == nil {
					err = send(ctx, io.Discard)
				}
				return err
			},
		}
		for l := layers.Base; l <= layers.Node; l++ {
			reads[l.String()+" layer"] = func() error { _, err := c.Layer(ctx, ops.LayerQuery{Layer: l}); return err }
		}
		for name, read := range reads {
			var missing *ops.NotFoundError
			if err := read(); err != nil && !errors.As(err, &missing) {
				t.Errorf("%s: %v", name, err)
			}
			if now := words(); now != before {
				t.Errorf("%s: %d words went to the node", name, now-before)
				before = now
			}
		}
		if _, err := c.Preview(ctx, fleetapi.WriteRequest{Caller: alice,
			Write: ops.SetNetwork{Overrides: r.doc(`{"envParams":{"B":"two"}}`)}}); err != nil {
			t.Error(err)
		}
		if words() == before {
			t.Error("a preview asked no node: nothing was counted")
		}
		r.wants(c, "n0", string(fleet.InSync))
	})
}
