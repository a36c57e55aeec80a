package netns_test

import (
	"strings"
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// If another program renames an opened port, it is closed again. A port that gets its name is opened separately.
func TestAPortThatIsRenamedIsClosed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	forwarding := func(link string) string {
		return strings.TrimSpace(l.ns.Exec(t, "sysctl", "-n", "net.ipv4.conf."+link+".forwarding"))
	}
	opened := func() string {
		var keys []string
		for id := range l.observe(hostOwner, true) {
			if id.Kind == netstate.KindSysctl {
				keys = append(keys, id.Name)
			}
		}
		return strings.Join(keys, " ")
	}
	l.must(hostOwner, root())
	if forwarding("eth0") != "1" {
		t.Fatal("the port was not opened")
	}
	l.ns.Exec(t, "ip", "link", "set", "eth0", "down")
	l.ns.Exec(t, "ip", "link", "set", "eth0", "name", "wan0")
	if got := opened(); got != netstate.ForwardingOf("wan0") {
		t.Errorf("opened is %q", got)
	}
	l.must(hostOwner, netinst.HostState([]netinst.HostNetwork{{Number: 1, Subnet: subnetOf(1)}}))
	if got := forwarding("wan0"); got != "0" {
		t.Errorf("the port goes on as %s under its new name", got)
	}
	l.ns.Exec(t, "ip", "link", "set", "far0", "down")
	l.ns.Exec(t, "ip", "link", "set", "far0", "name", "eth0")
	l.must(hostOwner, root())
	if forwarding("eth0") != "1" || forwarding("wan0") != "0" || opened() != netstate.ForwardingOf("eth0") {
		t.Errorf("eth0 %s, wan0 %s, opened %q", forwarding("eth0"), forwarding("wan0"), opened())
	}
	l.must(hostOwner, nil)
	if forwarding("eth0") != "0" {
		t.Error("the port stays open")
	}
}
