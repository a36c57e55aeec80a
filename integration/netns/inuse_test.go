package netns_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/platform/dhcp"
)

// An address that another host on the link has is found by ARP from an interface without any address. Nothing is learnt
// by the neighbour, and an address that no host has is free within a second.
func TestAnAddressInUseIsFound(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ns.Exec(t, "ip", "link", "add", "eth5", "type", "veth", "peer", "name", "far5")
	l.ns.Exec(t, "ip", "link", "set", "eth5", "up")
	l.ns.Exec(t, "ip", "link", "set", "far5", "up")
	l.ns.Exec(t, "ip", "addr", "add", "10.9.0.5/24", "dev", "far5")
	_, rest, _ := strings.Cut(l.ns.Exec(t, "ip", "-o", "link", "show", "far5"), "link/ether ")
	mac, _, _ := strings.Cut(rest, " ")
	for addr, want := range map[string]string{"10.9.0.5": mac, "10.9.0.6": ""} {
		began := time.Now()
		who, err := dhcp.InUse(t.Context(), l.ns.Path, "eth5", netip.MustParseAddr(addr))
		if err != nil || who != want {
			t.Errorf("%s is in use by %q, want %q: %v", addr, who, want, err)
		}
		if took := time.Since(began); took > 3*time.Second || want == "" && took < 900*time.Millisecond {
			t.Errorf("%s: known after %v", addr, took)
		}
	}
	if got := l.ns.Exec(t, "ip", "neigh", "show", "dev", "far5"); strings.TrimSpace(got) != "" {
		t.Errorf("the neighbour has learnt %s", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	if who, err := dhcp.InUse(ended, l.ns.Path, "eth5", netip.MustParseAddr("10.9.0.6")); err == nil ||
		time.Since(began) > 500*time.Millisecond {
		t.Errorf("cancelled, it says %q, %v after %v", who, err, time.Since(began))
	}
	if _, err := dhcp.InUse(t.Context(), l.ns.Path, "lo", netip.MustParseAddr("10.9.0.6")); err == nil {
		t.Error("lo has no ARP")
	}
}
