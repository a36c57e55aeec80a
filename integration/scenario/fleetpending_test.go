package scenario

import "testing"

// An app whose namespace appears later delays nothing: its config is confirmed and kept, and the node is not ready
// until the app is there.
func TestAnAppThatStartsLaterThanItsConfigHoldsUpNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	o := w.member(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)), "--config-confirm-timeout-s", "8")
	before := w.accepted()
	o.set("edge-1", doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll), onNet(2, 1, w.NS("late"), allowAll)))
	n := o.is("edge-1", "InSync", func(n nodeSeen) bool { return n.Running == n.Desired && n.Pending == "" })
	if n.Ready || w.accepted()-before != 1 {
		t.Errorf("%d configs were taken, and the node is %+v", w.accepted()-before, n)
	}
	w.pends(2, "late")
	w.late()
	o.is("edge-1", "InSync", ready)
	w.wait("ready", "app/"+app(2))
}
