package netns_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

// TestTheTreeOfRulesLeadsEachNetworkToItsTable checks law 11 for the host's policy rules, and that the kernel reads
// them as netinst means them to be read: with many networks, few, and after others have deleted some.
func TestTheTreeOfRulesLeadsEachNetworkToItsTable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	doc := func(networks int) string {
		d := "ports:\n" + wanDoc + "networkInstances:\n"
		for n := 1; n <= networks; n++ {
			d += fmt.Sprintf("  %s: {port: wan, ipv4: {subnet: 10.%d.%d.0/24}}\n", owner(n).Name, n/4, n)
		}
		return d
	}
	tree := func() int {
		return strings.Count(l.ns.Exec(t, "ip", "rule"), "\n19")
	}
	routes := func(when string, networks int) {
		t.Helper()
		for n := 1; n <= networks; n++ {
			table, gateway := fmt.Sprintf(" table %d ", 20000+n), fmt.Sprintf("10.%d.%d.1", n/4, n)
			out := l.ns.Exec(t, "ip", "route", "get", "198.51.100.9", "from", gateway)
			in := l.ns.Exec(t, "ip", "route", "get", fmt.Sprintf("10.%d.%d.77", n/4, n))
			if !strings.Contains(out, " dev eth0 "+strings.TrimLeft(table, " ")) ||
				!strings.Contains(in, fmt.Sprintf(" dev es%d", n)+table) {
				t.Errorf("%s: network %d:\n%s%s", when, n, out, in)
			}
		}
		if main := l.ns.Exec(t, "ip", "route", "get", "198.51.100.9"); strings.Contains(main, "table") {
			t.Errorf("%s: the host itself: %s", when, main)
		}
	}
	// Another program's table, in which host's packets must not be looked up.
	l.ns.Exec(t, "ip", "route", "add", "blackhole", "default", "table", "20000")
	have := desiredStates{}
	for _, networks := range []int{7, 3, 8} {
		want := l.desiredStates(doc(networks), have)
		l.turn(have, want)
		have = want
		routes(fmt.Sprintf("%d networks", networks), networks)
		if exists := tree() > 0; exists != (networks > 4) {
			t.Errorf("%d networks: a tree: %v", networks, exists)
		}
	}
	before := strings.Split(l.ns.Exec(t, "ip", "rule"), "\n")
	for _, priority := range []string{"19001", "19500", "22000", "19000"} {
		l.ns.Exec(t, "ip", "rule", "del", "priority", priority)
		l.turn(have, have)
		after := strings.Split(l.ns.Exec(t, "ip", "rule"), "\n")
		slices.Sort(before) // rules of one priority in any order
		slices.Sort(after)
		if !slices.Equal(before, after) {
			t.Errorf("after %s was deleted:\n%s", priority, strings.Join(after, "\n"))
		}
		routes(priority+" deleted", 8)
	}
	// A process that was killed between the two halves of a change leaves a branch twice.
	l.ns.Exec(t, "ip", "rule", "add", "priority", "19000", "from", "10.0.0.0/8", "table", "7", "goto", "20003",
		"protocol", fmt.Sprint(netstate.RouteProtocol))
	l.turn(have, have)
	if n := strings.Count(l.ns.Exec(t, "ip", "rule"), "from 10.0.0.0/8 goto"); n != 1 {
		t.Errorf("%d branches for one prefix", n)
	}
	// Network 9 takes the place of network 8: the branch of their subnet leads elsewhere at once.
	want := l.desiredStates(doc(7)+fmt.Sprintf("  %s: {port: wan, ipv4: {subnet: 10.2.8.0/24}}\n", owner(9).Name), have)
	l.turn(have, want)
	have = want
	for _, dir := range []string{"from", "to"} {
		if rules := l.ns.Exec(t, "ip", "rule"); !strings.Contains(rules, dir+" 10.2.8.0/24 lookup 2") {
			t.Errorf("no branch for the subnet that has another network now:\n%s", rules)
		}
	}
	l.turn(have, desiredStates{})
	if n := tree(); n != 0 {
		t.Errorf("%d rules of the tree stay behind", n)
	}
}
