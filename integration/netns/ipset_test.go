package netns_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
	"edgespan/platform/ipset"

	"github.com/google/go-cmp/cmp"
)

func prefixes(texts ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, s := range texts {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

func openSets(t *testing.T) (*netns.NS, *ipset.Sets) {
	t.Helper()
	ns := netns.New(t)
	s, err := ipset.Open(ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return ns, s
}

func observeSets(t *testing.T, s *ipset.Sets, n int) netstate.State {
	t.Helper()
	got, err := s.Observe(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestASetIsObservedAsDesired(t *testing.T) {
	t.Parallel()
	ns, s := openSets(t)
	ns.Exec(t, "ipset", "create", "es7", "hash:ip") // of others: no name of edgespan's
	ns.Exec(t, "ipset", "create", "es7x-a", "hash:ip")
	want := netstate.NewState(
		netstate.Set{Name: "es7-empty"},
		netstate.Set{Name: "es7-some", Entries: prefixes("0.0.0.0/1", "10.0.0.0/8", "10.1.0.0/16", "192.0.2.1/32")},
		netstate.Set{Name: "es7-six", IPv6: true, Entries: prefixes("2001:db8::/32", "2001:db8::1/128")},
		netstate.Set{Name: "es7-host", Timeout: 3600, Max: 64},
		netstate.Set{Name: "es7-host6", IPv6: true, Timeout: 3600, Max: 64},
	)
	for _, o := range want {
		if err := s.Put(o.(netstate.Set)); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(want.String(), observeSets(t, s, 7).String()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if ns, err := s.Numbers(t.Context()); err != nil || len(ns) != 1 || ns[0] != 7 {
		t.Errorf("numbers %v, %v", ns, err)
	}
	for _, o := range want {
		if err := s.Remove(o.(netstate.Set)); err != nil {
			t.Error(err)
		}
		if err := s.Remove(o.(netstate.Set)); err != nil {
			t.Errorf("a missing set: %v", err)
		}
	}
	if got := ns.Exec(t, "ipset", "list", "-n"); got != "es7\nes7x-a\n" {
		t.Errorf("left: %q", got)
	}
	if err := s.Remove(netstate.Set{Name: "es7"}); err == nil {
		t.Error("a set of others is removed")
	}
}

// Others change a set that a rule names: it can't be destroyed, and is put right at once.
func TestAChangedSetIsRepairedInUse(t *testing.T) {
	t.Parallel()
	ns, s := openSets(t)
	want := netstate.Set{Name: "es7-some", Entries: prefixes("10.0.0.0/8", "192.0.2.1/32")}
	dynamic := netstate.Set{Name: "es7-host", Timeout: 3600, Max: 64}
	for _, set := range []netstate.Set{want, dynamic} {
		if err := s.Put(set); err != nil {
			t.Fatal(err)
		}
		ns.Exec(t, "iptables", "-A", "FORWARD", "-m", "set", "--match-set", set.Name, "dst", "-j", "DROP")
	}
	ns.Exec(t, "ipset", "create", "es7-new", "hash:ip") // left by a crash
	ns.Exec(t, "ipset", "del", want.Name, "10.0.0.0/8")
	ns.Exec(t, "ipset", "add", want.Name, "198.51.100.0/24")
	if got := observeSets(t, s, 7); len(got) != 3 || got[want.ID()].Text() == want.Text() {
		t.Fatalf("drift is not seen:\n%s", got)
	}
	if err := s.Put(want); err != nil {
		t.Fatal(err)
	}
	// A set with another limit keeps what helpers have added.
	ns.Exec(t, "ipset", "add", dynamic.Name, "192.0.2.9", "timeout", "100")
	dynamic.Max = 128
	if err := s.Put(dynamic); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(netstate.NewState(want, dynamic).String(), observeSets(t, s, 7).String()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	list := ns.Exec(t, "ipset", "list", dynamic.Name)
	if !strings.Contains(list, "192.0.2.9 timeout 9") && !strings.Contains(list, "192.0.2.9 timeout 100") {
		t.Errorf("the entry was not kept with its time:\n%s", list)
	}
	if err := s.Remove(want); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("a set in use is removed: %v", err)
	}
}

// A full set of a host rule takes most new entries and drops others: an app that resolves many names does not lock it.
// (The kernel refuses a new entry of a full set whose bucket is empty: 3 to 10 % of them, ip_set_hash_gen.h.)
func TestAFullSetTakesNewEntries(t *testing.T) {
	t.Parallel()
	ns, s := openSets(t)
	const size = 4096
	if err := s.Put(netstate.Set{Name: "es7-host", Timeout: 3600, Max: size}); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range size {
		fmt.Fprintf(&b, "add es7-host 10.9.%d.%d\n", i/256, i%256)
	}
	file := filepath.Join(t.TempDir(), "entries")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	ns.Exec(t, "ipset", "-exist", "-file", file, "restore")
	const more = 200
	taken := ns.Exec(t, "sh", "-c", fmt.Sprintf(
		"for i in $(seq %d); do ipset add es7-host 10.10.0.$i 2>/dev/null && ipset test es7-host 10.10.0.$i 2>/dev/null "+
			"&& echo taken; done", more))
	if n := strings.Count(taken, "taken"); n < more*3/4 {
		t.Errorf("%d of %d new entries were taken", n, more)
	} else {
		t.Logf("%d of %d new entries were taken", n, more)
	}
	set := observeSets(t, s, 7)[netstate.ID{Kind: netstate.KindSet, Name: "es7-host"}].(netstate.Set)
	if n := len(set.Members); n > size+size/10 { // the kernel counts by region, and not exactly
		t.Errorf("%d entries in a set of %d", n, size)
	}
}

func TestThousandsOfPrefixesAreAppliedQuickly(t *testing.T) {
	_, s := openSets(t)
	var ps []netip.Prefix
	for i := range 16384 {
		ps = append(ps, netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i >> 8), byte(i), 0}), 24))
	}
	want := netstate.Set{Name: "es7-many", Entries: ps}
	began := time.Now()
	if err := s.Put(want); err != nil {
		t.Fatal(err)
	}
	put := time.Since(began)
	got := observeSets(t, s, 7)
	t.Logf("16,384 prefixes: put in %v, observed in %v", put, time.Since(began)-put)
	if got[want.ID()].Text() != want.Text() {
		t.Error("observed different")
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}
