package controller

import (
	"strings"
	"testing"
	"time"

	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/stateloop/peer"
)

// All members know each other's next keys. One that reports another's as its own would keep the others from following
// that one, which would be cut off.
func TestAKeyOfAnotherNodeIsIgnored(t *testing.T) {
	key := func(c string) string { return strings.Repeat("A", 42) + c + "=" }
	onPeers(t, func(r *rig, c *Controller) {
		r.deploy(c)
		stored := func(name string) string {
			e, _, _ := r.store.Get(r.Context(), history.UnderlayKey(r.nodes[name].id))
			return string(e.Value)
		}
		reports := func(name, own, next string) {
			n := r.nodes[name]
			n.mu.Lock()
			n.ports = append(n.ports[:1:1], nodeproto.Port{Label: peer.KeyLabel, PublicKey: key(own)},
				nodeproto.Port{Label: peer.NextKeyLabel, PublicKey: key(next)})
			n.mu.Unlock()
		}
		reports("a", "E", "I")
		r.pass(time.Minute)
		if text := stored("a"); !strings.Contains(text, key("E")) || !strings.Contains(text, key("I")) {
			t.Fatalf("a has %s", text)
		}
		reports("b", "I", "E") // its own are a's
		reports("c", "M", "I")
		r.pass(time.Hour)
		if text := stored("b"); strings.Contains(text, key("I")) || strings.Contains(text, key("E")) {
			t.Errorf("b has %s", text)
		}
		if text := stored("c"); strings.Contains(text, key("I")) || !strings.Contains(text, key("M")) {
			t.Errorf("c has %s", text)
		}
		reports("a", "I", "Q") // it has replaced its key
		r.pass(time.Hour)
		reports("b", "E", "I") // the former one
		r.pass(time.Hour)
		if text := stored("a"); !strings.Contains(text, key("I")) || !strings.Contains(text, key("Q")) {
			t.Errorf("later a has %s", text)
		}
		if text := stored("b"); strings.Contains(text, key("I")) || strings.Contains(text, key("E")) {
			t.Errorf("later b has %s", text)
		}
	})
}
