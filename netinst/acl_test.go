package netinst

import (
	"fmt"
	"slices"
	"testing"
)

func TestProtocolsOfARule(t *testing.T) {
	port := []PortRange{{80, 80}}
	for _, c := range []struct {
		rule ACLRule
		want string // "any", or the numbers
	}{
		{ACLRule{}, "any"},
		{ACLRule{Ports: port}, "[6 17]"},
		{ACLRule{LocalPort: port}, "[6 17]"},
		{ACLRule{Protocol: "tcp"}, "[6]"},
		{ACLRule{Protocol: "udp", Ports: port}, "[17]"},
		{ACLRule{Protocol: "icmp"}, "[1]"},
		{ACLRule{Protocol: "icmp", LocalPort: port}, "[]"},
		{ACLRule{Protocol: "47"}, "[47]"},
		{ACLRule{Protocol: "47", Ports: port}, "[]"},
		{ACLRule{Protocol: "6", Ports: port}, "[6]"},
		{ACLRule{Protocol: "17", LocalPort: port}, "[17]"},
		{ACLRule{Protocol: "1", Ports: port}, "[]"},
		{ACLRule{Protocol: "0"}, "[]"},
		{ACLRule{Protocol: "256"}, "[]"},
		{ACLRule{Protocol: "word"}, "[]"},
	} {
		nums, any := c.rule.protocols()
		got := fmt.Sprint(nums)
		if any {
			got = "any"
		}
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.rule, got, c.want)
		}
	}
}

// One multiport match takes fifteen ports, of which a range is two.
func TestPortsAreCutToWhatOneMatchTakes(t *testing.T) {
	for _, c := range []struct {
		single, ranges int
		want           []int // ports and ranges of each match
	}{
		{0, 0, []int{0}},
		{15, 0, []int{15}},
		{16, 0, []int{15, 1}},
		{1, 7, []int{8}},
		{2, 7, []int{8, 1}},
		{0, 16, []int{7, 7, 2}},
	} {
		ports := slices.Concat(slices.Repeat([]PortRange{{1, 2}}, c.ranges), slices.Repeat([]PortRange{{1, 1}}, c.single))
		var got []int
		for _, chunk := range chunks(ports) {
			got = append(got, len(chunk))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d ports and %d ranges: %v, want %v", c.single, c.ranges, got, c.want)
		}
	}
}
