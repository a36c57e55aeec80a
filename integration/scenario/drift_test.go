package scenario

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// With sysParams.drift: observe, an operator's changes are reported and kept, over a restart and while apps come and
// go, and apps lose no packets. After a change to enforce, they are repaired.
func TestDriftIsReportedAndStaysWhileItIsOnlyObserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b")
	nets, apps := []string{network(1, "")}, []string{onNet(1, 1, "a", allowAll), onNet(2, 1, "b", allowAll)}
	observe := "sysParams: {drift: observe}\n" + doc(nets, apps...)
	w.start(observe)
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	w.lease("a")
	before := w.settled()
	rules := func() string { return w.in("node", "iptables", "-S", "ES1-FWD") }
	w.in("node", "iptables", "-I", "ES1-FWD", "1", "-p", "udp", "--dport", "9", "-j", "ACCEPT")
	w.in("node", "ip", "link", "set", "es1", "mtu", "1400")
	touched, changedByHand := rules(), w.dump("node")
	reported := func(when string) {
		t.Helper()
		w.eventually(when+": drift is told", func() bool {
			s := w.status("ni", ni(1))
			why, _ := s["error"].(string)
			return s["state"] == "CheckPresentFailed" && strings.HasPrefix(why, "drift, left as it is: ")
		})
		if now := w.dump("node"); now != changedByHand || rules() != touched {
			t.Errorf("%s: the host was changed:\n%s", when, changed(changedByHand, now))
		}
	}
	reported("at once")
	ping, err := w.PingLoop("a", netip.MustParseAddr(lab.WebAddr), 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	reported("after a restart")
	if c := ping.Stop(); c.Lost+c.Wrong > 0 || c.Sent == 0 {
		t.Errorf("a restart beside drift: %+v", c)
	}
	w.apply(doc(nets, apps...))
	w.wait("ready", "ni/"+ni(1))
	if now := w.dump("node"); now != before {
		t.Errorf("enforced again, it is not as it was:\n%s", changed(before, now))
	}
}
