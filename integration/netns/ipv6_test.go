package netns_test

import (
	"regexp"
	"strings"
	"testing"

	"edgespan/netinst/netstate"

	"github.com/google/go-cmp/cmp"
)

// withIPv6 adds IPv6 to networks of a config, by their IPv4 subnets.
func withIPv6(doc string, six map[string]string) string {
	for subnet, fields := range six {
		at := "    ipv4: {subnet: " + subnet + "}\n"
		doc = strings.Replace(doc, at, at+"    ipv6: {"+fields+"}\n", 1)
	}
	return doc
}

// The objects of networks with IPv6 are observed as desired over changes, and nothing is left of them on a host that
// forwards no IPv6 by itself.
func TestIPv6IsObservedAsDesiredAndGoes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ns.Exec(t, "ip", "addr", "add", "2001:db8:99::2/64", "dev", "eth0", "nodad")
	l.ns.Exec(t, "ip", "-6", "route", "add", "default", "via", "2001:db8:99::1")
	until(t, "the kernel's own route to the address", func() bool {
		return strings.Contains(l.ns.Exec(t, "ip", "-6", "route", "show", "table", "local"), "local 2001:db8:99::2")
	})
	host := picture(t, l.ns)
	v4 := l.desiredStates(l.before(), desiredStates{})
	six := l.desiredStates(withIPv6(l.before(), map[string]string{
		"10.1.0.0/24":                   `subnet: "fd00:1::/64", nat: true`,
		"10.2.0.0/24":                   `subnet: "fd00:2::/64", mode: dhcpv6, nat: true`, // with drain
		"10.1.0.0/24, mayOverlap: true": `subnet: "fd00:5::/64"`,
	}), v4)
	flows := netstate.ID{}
	for id := range six.nets[2] {
		if strings.HasSuffix(id.Name, "ES2-FLOWS6") {
			flows = id
		}
	}
	if c := six.nets[2][flows]; c == nil || !strings.Contains(c.Text(), "ct reply ip6 daddr 2001:db8:99::2 ") {
		t.Fatalf("network 2 marks no flows of IPv6: %v", c)
	}
	other := l.desiredStates(withIPv6(l.before(), map[string]string{
		"10.1.0.0/24": `subnet: "fd00:11::/64", mode: dhcpv6`, "10.3.0.0/24": `subnet: "fd00:3::/64"`,
	}), v4)
	l.turn(desiredStates{}, v4)
	for _, br := range []string{"es1", "es2"} { // else it takes an address from its own advertisements while IPv6 goes
		if got := l.ns.Exec(t, "sysctl", "-n", "net.ipv6.conf."+br+".accept_ra"); strings.TrimSpace(got) != "0" {
			t.Errorf("%s accepts router advertisements: %s", br, got)
		}
	}
	without := picture(t, l.ns)
	for _, next := range []desiredStates{six, other, six, v4} {
		l.turn(v4, next)
		v4.nets, v4.foundation = next.nets, next.foundation
	}
	// The kernel keeps its own routes of a link that has had IPv6.
	kernels := regexp.MustCompile("(?m)^(anycast|multicast) .* dev es.*\n")
	if d := cmp.Diff(without, kernels.ReplaceAllString(picture(t, l.ns), "")); d != "" {
		t.Errorf("after IPv6 (-before +after):\n%s", d)
	}
	l.turn(v4, six)
	l.open() // another process, which has only the run folder and the kernel
	l.turn(six, six)
	// A subnet that another network has is waited for.
	taken := l.desiredStates(withIPv6(l.before(), map[string]string{"10.3.0.0/24": `subnet: "fd00:2::/64"`}), v4)
	fs := l.apply(t.Context(), owner(3), taken.nets[3])
	if len(fs) == 0 || !fs[0].Waiting || !strings.Contains(fs[0].Err, "es2 still has fd00:2::1/64") {
		t.Errorf("a subnet twice: %+v", fs)
	}
	l.turn(six, six)
	l.turn(six, desiredStates{})
	if d := cmp.Diff(host, picture(t, l.ns)); d != "" {
		t.Errorf("the host differs (-before +after):\n%s", d)
	}
}
