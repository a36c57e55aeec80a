package vpn

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

// method is one in memory, that notes what it is asked.
type method struct {
	name  string
	has   map[int]netstate.VPN
	asked *[]string
	ended chan int
}

func (m *method) note(what string) { *m.asked = append(*m.asked, m.name+" "+what) }

func (m *method) Put(_ context.Context, v netstate.VPN) error {
	n, _ := netstate.VPNNumber(v.Link)
	m.note("puts " + v.Name)
	m.has[n] = v
	return nil
}

func (m *method) Remove(_ context.Context, v netstate.VPN) error {
	n, _ := netstate.VPNNameNumber(v.Name)
	m.note("removes " + v.Name)
	delete(m.has, n)
	return nil
}

func (m *method) Observe(_ context.Context, n int) (netstate.VPN, bool, error) {
	v, found := m.has[n]
	return v, found, nil
}

func (m *method) Status(_ context.Context, n int) (netstate.TunnelStatus, error) {
	if _, has := m.has[n]; !has {
		return netstate.TunnelStatus{}, fs.ErrNotExist
	}
	return netstate.TunnelStatus{Number: n, Kind: m.name}, nil
}
func (m *method) Ended() <-chan int   { return m.ended }
func (m *method) Close()              {}
func (m *method) Forget(string) error { return nil }
func (m *method) PublicKey(identity string) (string, error) {
	return "key of " + identity, nil
}

func (m *method) Kept(identity string) (netstate.KeptKey, error) {
	return netstate.KeptKey{Public: "key of " + identity}, nil
}
func (m *method) Announce(identity string) error  { m.note("announces " + identity); return nil }
func (m *method) Date(identity string) error      { m.note("dates " + identity); return nil }
func (m *method) Replace(identity string) error   { m.note("replaces " + identity); return nil }
func (m *method) TryFormer(identity string) error { m.note("restores " + identity); return nil }
func (m *method) TryAgain(identity string) error  { m.note("restores " + identity); return nil }
func (m *method) Settle(identity string) error    { m.note("proves " + identity); return nil }

// Each operation goes to the method of the tunnel; another method's tunnel of the same network is removed first, by the
// method that has made it.
func TestEachTunnelBelongsToItsMethod(t *testing.T) {
	ctx, dir, asked := t.Context(), t.TempDir(), []string(nil)
	wg := &method{"wireguard", map[int]netstate.VPN{}, &asked, make(chan int)}
	ip := &method{"ipsec", map[int]netstate.VPN{}, &asked, make(chan int)}
	tunnels := New(dir, wg, ip)
	of := func(n int, w *netstate.WireGuard, x *netstate.IPsec) netstate.VPN {
		return netstate.VPN{Name: netstate.VPNName(n), Link: netstate.VPNLink(n), WireGuard: w, IPsec: x}
	}
	if _, err := tunnels.Status(ctx, 3); !errors.Is(err, ErrNone) {
		t.Errorf("status of none: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "ni/3/vpn"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, found, err := tunnels.Observe(ctx, 3); !found || err != nil {
		t.Errorf("a folder that a crash has left: %v, %v", found, err)
	}
	if _, err := tunnels.Status(ctx, 3); !errors.Is(err, ErrNone) {
		t.Errorf("status of what a crash has left: %v", err)
	}
	a, b := of(3, &netstate.WireGuard{}, nil), of(3, nil, &netstate.IPsec{})
	for _, err := range []error{tunnels.Put(ctx, a), tunnels.Put(ctx, b), tunnels.Put(ctx, b), tunnels.Remove(ctx, b),
		tunnels.Remove(ctx, b)} {
		if err != nil {
			t.Error(err)
		}
	}
	want := "wireguard puts ni/3/vpn, wireguard removes ni/3/vpn, ipsec puts ni/3/vpn, ipsec puts ni/3/vpn, " +
		"ipsec removes ni/3/vpn, ipsec removes ni/3/vpn, wireguard removes ni/3/vpn"
	if got := strings.Join(asked, ", "); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
	for _, bad := range []netstate.VPN{of(3, nil, nil), of(3, &netstate.WireGuard{}, &netstate.IPsec{}),
		{Name: "ni/3/vpn", Link: "evpn4", WireGuard: &netstate.WireGuard{}}} {
		if tunnels.Put(ctx, bad) == nil {
			t.Errorf("%s %s is made", bad.Name, bad.Link)
		}
	}
	watch, cancel := context.WithCancel(ctx)
	seen, over := make(chan int), make(chan bool)
	go func() { tunnels.Watch(watch, func(n int) { seen <- n }); close(over) }()
	ip.ended <- 3
	if n := <-seen; n != 3 {
		t.Errorf("ended: %d", n)
	}
	cancel()
	<-over
}
