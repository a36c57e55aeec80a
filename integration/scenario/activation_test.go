package scenario

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"edgespan/platform/lab"
)

// As an operator I prepare a network and let it carry traffic later: until then its bridge, DHCP and DNS stand, and
// branches are the lines of iptables-save that make branches of host's, or lead to them.
var branches = regexp.MustCompile(`(?m)^(:ES-POST-.*|.*-j ES-POST-[0-9].*)$`)

// nothing of the node's routing or NAT knows it. Another network notices neither step.
func TestANetworkIsRoutedOnceItIsActivated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	other, apps := network(2, ""), []string{onNet(1, 1, "web", allowAll), onNet(2, 2, "client", allowAll)}
	quiet, on := doc([]string{network(1, "    activate: false\n"), other}, apps...), doc([]string{network(1, ""), other}, apps...)
	w.start(quiet)
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(2))
	w.lease("client")
	routing := func() (found []string) {
		t.Helper()
		for _, c := range []string{"ip rule", "ip route show table all", "iptables-save -t nat", "ip addr show dev es1"} {
			// Branches of host's lead to the prefix of any network, and nowhere without the network's own hook.
			if strings.Contains(branches.ReplaceAllString(w.in("node", strings.Fields(c)...), ""), "10.1.0.") {
				found = append(found, c)
			}
		}
		return found
	}
	prepared := func() {
		t.Helper()
		// The kernel keeps the address itself in the table local, which is no route of the network.
		if got := strings.Join(routing(), ", "); got != "ip route show table all, ip addr show dev es1" {
			t.Errorf("an inactive network is in %s", got)
		}
		if got := strings.Count(w.in("node", "ip", "route", "show", "table", "all"), "10.1.0."); got !=
			strings.Count(w.in("node", "ip", "route", "show", "table", "local"), "10.1.0.") {
			t.Error("an inactive network has a route of its own")
		}
		if got := w.in("node", "dig", "+short", "+tries=1", "+time=5", "@10.1.0.1", lab.WebName); got != lab.WebAddr {
			t.Errorf("its DNS answers %q", got)
		}
		w.without("web", "eth0")
	}
	prepared()

	ping := w.Command(w.ctx, "client", "ping", "-q", "-i", "0.05", lab.WebAddr)
	var counted strings.Builder
	ping.Stdout, ping.Stderr = &counted, &counted
	if err := ping.Start(); err != nil {
		t.Fatal(err)
	}
	w.apply(on)
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.serves(1, 1, 1, "web")
	w.in("web", "ping", "-c", "1", "-W", "5", lab.WebAddr)
	if got := routing(); len(got) != 4 {
		t.Errorf("an active network is only in %v", got)
	}
	w.apply(quiet)
	w.wait("ready", "ni/"+ni(1))
	w.eventually("the end of its routing", func() bool { return len(routing()) == 2 })
	prepared()
	if err := ping.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := ping.Wait(); err != nil || !strings.Contains(counted.String(), " 0% packet loss") {
		t.Errorf("the other network: %v: %s", err, counted.String())
	}
}
