package wireguard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/platform/proc"
	"edgespan/platform/vpn/wireguard/helper"
)

// fakeHelper answers the protocol for one peer, keyA, and notes what is set.
type fakeHelper struct {
	mu        sync.Mutex
	endpoint  string
	handshake time.Time
	set       []string
}

func (f *fakeHelper) serve(listen net.Listener) {
	for {
		conn, err := listen.Accept()
		if err != nil {
			return
		}
		f.answer(conn)
	}
}

func (f *fakeHelper) answer(conn net.Conn) {
	defer conn.Close()
	var lines []string
	for in := bufio.NewScanner(conn); in.Scan() && in.Text() != ""; {
		lines = append(lines, in.Text())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(lines) > 0 && lines[0] == "set=1" {
		for _, l := range lines {
			if e, ok := strings.CutPrefix(l, "endpoint="); ok {
				f.endpoint = e
				f.set = append(f.set, e)
			}
		}
	} else {
		fmt.Fprintf(conn, "public_key=%s\n", keyA.hex())
		if f.endpoint != "" {
			fmt.Fprintf(conn, "endpoint=%s\n", f.endpoint)
		}
		if !f.handshake.IsZero() {
			fmt.Fprintf(conn, "last_handshake_time_sec=%d\n", f.handshake.Unix())
		}
	}
	fmt.Fprint(conn, "errno=0\n\n")
}

// newTended returns Tunnels whose tunnel 3 has one peer with this endpoint, and a resolver that tests give.
func newTended(t *testing.T, endpoint string) (*Tunnels, *fakeHelper) {
	t.Helper()
	dir, err := os.MkdirTemp("", "eswg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	tunnels := New(proc.New(""), "", dir, dir)
	t.Cleanup(tunnels.Close)
	folder := tunnels.folder(3)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	r := record{Whole: true, Link: "evpn3", Peers: []recordedPeer{{Name: "hub", PublicKey: keyA.base64(), Endpoint: endpoint}}}
	if err := r.write(folder); err != nil {
		t.Fatal(err)
	}
	listen, err := net.Listen("unix", filepath.Join(folder, helper.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listen.Close() })
	f := &fakeHelper{}
	go f.serve(listen)
	one := tunnels.tunnel(3)
	one.ends[keyA] = &end{endpoint: endpoint}
	return tunnels, f
}

func TestASilentPeerIsLookedForAtEachAddressOfItsName(t *testing.T) {
	tunnels, f := newTended(t, "vpn.example.org:51820")
	one := tunnels.tunnel(3)
	var asked int
	answer, failure := []netip.Addr(nil), errors.New("no such host")
	tunnels.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		if asked++; host != "vpn.example.org" {
			t.Errorf("lookup of %s", host)
		}
		return answer, failure
	}
	if wait := tunnels.tendOnce(t.Context(), one, 3); wait > retryFirst || asked != 1 || one.lookupError(keyA) != failure {
		t.Fatalf("after %d lookups: again in %v, error %v", asked, wait, one.lookupError(keyA))
	}
	tunnels.tendOnce(t.Context(), one, 3)
	if asked != 1 {
		t.Fatal("it is asked again at once")
	}
	due := func() {
		one.mu.Lock()
		one.ends[keyA].next = time.Time{}
		one.mu.Unlock()
	}
	answer, failure = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}, nil
	for range 3 {
		due()
		tunnels.tendOnce(t.Context(), one, 3)
	}
	if want := []string{"192.0.2.1:51820", "[2001:db8::1]:51820", "192.0.2.1:51820"}; !slices.Equal(f.set, want) {
		t.Errorf("endpoints %q, want %q", f.set, want)
	}
	if err := one.lookupError(keyA); err != nil {
		t.Errorf("still: %v", err)
	}
	if got := one.resolved(keyA, "vpn.example.org:51820"); got.String() != "192.0.2.1:51820" {
		t.Errorf("known as %s", got)
	}

	f.mu.Lock()
	f.handshake, f.endpoint = time.Now(), "203.0.113.9:7" // it is heard, from elsewhere
	f.mu.Unlock()
	due()
	if wait := tunnels.tendOnce(t.Context(), one, 3); wait != tendEvery || asked != 4 || len(f.set) != 3 {
		t.Errorf("a peer that is heard: %d lookups, endpoints %q, again in %v", asked, f.set, wait)
	}
	f.mu.Lock()
	f.handshake = time.Now().Add(-silentAfter - time.Second)
	f.mu.Unlock()
	if wait := tunnels.tendOnce(t.Context(), one, 3); wait > retryFirst || asked != 5 || len(f.set) != 4 {
		t.Errorf("a peer that is silent again: %d lookups, endpoints %q, again in %v", asked, f.set, wait)
	}
}

func TestLookupsOfASilentPeerBackOff(t *testing.T) {
	one := &tunnel{ends: map[key]*end{keyA: {endpoint: "vpn.example.org:1"}}}
	have := config{peers: map[key]peer{keyA: {}}}
	now, tries := time.Unix(1e9, 0), 0
	for end := now.Add(time.Hour); now.Before(end); now = now.Add(time.Second) {
		tries += len(one.due(have, now))
	}
	if tries < 15 || tries > 25 {
		t.Errorf("%d lookups in an hour", tries)
	}
}

func TestASilentPeerWithAnAddressIsLookedForThere(t *testing.T) {
	tunnels, f := newTended(t, "192.0.2.1:51820")
	f.endpoint = "203.0.113.9:7"
	tunnels.lookup = func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("asked for an address") }
	tunnels.tendOnce(t.Context(), tunnels.tunnel(3), 3)
	if want := []string{"192.0.2.1:51820"}; !slices.Equal(f.set, want) {
		t.Errorf("endpoints %q", f.set)
	}
}

func TestAHungResolverHoldsUpNothing(t *testing.T) {
	tunnels, f := newTended(t, "vpn.example.org:51820")
	hung, asked := make(chan struct{}), make(chan struct{})
	defer close(hung)
	tunnels.lookup = func(ctx context.Context, _ string) ([]netip.Addr, error) {
		close(asked)
		<-hung
		return nil, ctx.Err()
	}
	r, err := readRecord(tunnels.folder(3))
	if err != nil {
		t.Fatal(err)
	}
	one := tunnels.tunnel(3)
	tunnels.attend(one, 3, r)
	<-asked
	done := make(chan struct{})
	go func() { // what Put, Observe, Status and Remove take of it
		tunnels.attend(one, 3, r)
		_ = one.resolved(keyA, "vpn.example.org:51820")
		_ = one.lookupError(keyA)
		one.leave()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("held up")
	}
	if len(f.set) > 0 {
		t.Errorf("endpoints %q", f.set)
	}
}
