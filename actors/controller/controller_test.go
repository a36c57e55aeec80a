package controller

import (
	"testing"
	"time"

	"edgespan/config"
)

func TestANodeJoinsAndGetsItsConfig(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.network(c, `{"envParams":{"B":"2"}}`)
		n := r.node(c, "n1")
		r.pass(time.Second)
		r.wants(c, "n1", "in sync")
		pushes, md5 := n.got()
		want := r.doc(`{"sysParams":{"managedConfig":true},"envParams":{"A":"1","B":"2"}}`)
		if pushes != 1 || md5 != config.MD5(want) || n.pending != nil {
			t.Errorf("%d pushes, runs %s, pending %v", pushes, n.doc, n.pending)
		}
		if n.heard["link.Confirm"] != 1 || n.heard["link.Probe"] != 1 || n.heard["link.Managed"] != 1 {
			t.Errorf("heard %v", n.heard)
		}
	})
}
