package controller

import (
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
)

// leadsTo returns the endpoint that the auto layer of a node gives its tunnel t.
func (r *rig) leadsTo(c *Controller, node string) any {
	r.Helper()
	doc, err := c.Layer(r.Context(), ops.LayerQuery{Layer: layers.Auto})
	if err != nil {
		r.Fatal(err)
	}
	ip, _ := config.Lookup(doc.Object, []string{node, "tunnelConfig", "t", "dstIp"})
	return ip
}

// TestTunnelsLeadToWhereTheirNodesConnectFrom follows the address of a node that moves, on a replica other than the one
// that writes the tunnel.
func TestTunnelsLeadToWhereTheirNodesConnectFrom(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		r.synced(a, "n1")
		n2 := r.join(b, "n2")
		n2.address = "127.0.0.1"
		n2.connect(b)
		r.pass(2 * time.Second)
		tunnel := ops.SetNodes{Modify: true, Overrides: r.doc(
			`{"n1":{"tunnelConfig":{"t":{"enabled":true,"localInterface":"nic1","dstNodeName":"n2","tunnelType":"GRE_L2","tunnelParams":{}}}}}`)}
		r.write(a, tunnel)
		r.pass(2 * time.Second)
		if got := r.leadsTo(a, "n1"); got != nil {
			t.Errorf("it leads to %v, where nobody else comes", got)
		}
		last := func() uint64 {
			log, err := a.History(r.Context(), fleetapi.HistoryQuery{Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			return log[0].Number
		}
		for i, step := range []struct {
			address string
			to      *Controller
			want    any
			written uint64
		}{
			{"2001:db8::a", b, "2001:db8::a", 1},
			{"2001:db8::a", b, "2001:db8::a", 0},
			{"2001:db8::2", a, "2001:db8::2", 1},
			{"", b, "2001:db8::2", 0},
		} {
			before := last()
			n2.address = step.address
			n2.connect(step.to)
			r.pass(5 * time.Second)
			if got := r.leadsTo(b, "n1"); got != step.want {
				t.Errorf("%d: from %s: it leads to %v, want %v", i, step.address, got, step.want)
			}
			if n := last() - before; n != step.written {
				t.Errorf("%d: from %s: %d revisions, want %d", i, step.address, n, step.written)
			}
		}
		r.write(a, ops.Import{Files: history.Files{Auto: r.doc(`{"n1":{}}`), Nodes: r.doc(`{}`)}})
		r.pass(3 * time.Second)
		r.write(a, ops.Import{Files: history.Files{Nodes: r.doc(`{"n1":{"tunnelConfig":{"t":{"enabled":true,"localInterface":"nic1","dstNodeName":"n2","tunnelType":"GRE_L2","tunnelParams":{}}}}}`)}})
		r.pass(3 * time.Second)
		if got := r.leadsTo(a, "n1"); got != "2001:db8::2" {
			t.Errorf("after an import it leads to %v", got)
		}
	})
}
