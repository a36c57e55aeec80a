package netinst

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"pgregory.net/rapid"
)

var sameAddr = cmpopts.EquateComparable(netip.Addr{})

func adapterConfig(app uuid.UUID, index int, addr, mac string) AppAdapterConfig {
	c := AppAdapterConfig{AppUUID: app, Index: index, Activate: true}
	c.Spec.MAC = mac
	if addr != "" {
		c.Spec.IP = ip(addr)
	}
	return c
}

// say formats an allocation as one sentence: "a0=1/10.1.0.4 b0!no free IP …".
func say(a Allocation) string {
	var words []string
	for k, l := range a.Leases {
		words = append(words, fmt.Sprintf("%.1s%d=%d/%s", k.AppUUID, k.Index, l.Number, l.IP))
	}
	for k, e := range a.Errors {
		words = append(words, fmt.Sprintf("%.1s%d!%s", k.AppUUID, k.Index, e))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func TestAllocate(t *testing.T) {
	c := config()
	c.IPv4.Subnet, c.IPv4.DHCPFirst, c.IPv4.DHCPLast = prefix("10.1.0.0/29"), ip("10.1.0.4"), ip("10.1.0.6")
	held := func(n int, a string) Lease {
		return Lease{Number: n, IP: ip(a), MAC: "02:00:00:00:00:0" + fmt.Sprint(n)}
	}
	a0, a1, b0, b1 := key(appA, 0), key(appA, 1), key(appB, 0), key(appB, 1)
	for _, tc := range []struct {
		name     string
		adapters []AppAdapterConfig
		held     map[AdapterKey]Lease
		want     string
	}{
		{"the first gets the lowest of all", []AppAdapterConfig{adapterConfig(appA, 0, "", "")}, nil, "a0=1/10.1.0.4"},
		{
			"what is held stays",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", ""), adapterConfig(appB, 0, "", "")},
			map[AdapterKey]Lease{b0: held(1, "10.1.0.4")},
			"a0=2/10.1.0.5 b0=1/10.1.0.4",
		},
		{
			"a held address outside the range goes: it was a configured one, or the range moved",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", "")},
			map[AdapterKey]Lease{a0: held(7, "10.1.0.2")},
			"a0=7/10.1.0.4",
		},
		{
			"a held address outside the subnet goes",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", "")},
			map[AdapterKey]Lease{a0: held(7, "10.9.0.2")},
			"a0=7/10.1.0.4",
		},
		{
			"a held address that became the gateway goes",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", "")},
			map[AdapterKey]Lease{a0: held(7, "10.1.0.1")},
			"a0=7/10.1.0.4",
		},
		{
			"a configured address wins over the holder",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", ""), adapterConfig(appB, 0, "10.1.0.4", "")},
			map[AdapterKey]Lease{a0: held(1, "10.1.0.4")},
			"a0=1/10.1.0.5 b0=2/10.1.0.4",
		},
		{
			"a configured address twice",
			[]AppAdapterConfig{adapterConfig(appA, 0, "10.1.0.2", ""), adapterConfig(appB, 0, "10.1.0.2", "")},
			map[AdapterKey]Lease{b0: held(1, "10.1.0.2")},
			"a0!address 10.1.0.2 is taken by adapter " + b0.String() + " b0=1/10.1.0.2",
		},
		{
			"a configured address outside",
			[]AppAdapterConfig{adapterConfig(appA, 0, "10.2.0.2", "")},
			nil,
			"a0!address 10.2.0.2 can't be used in 10.1.0.0/29 with gateway 10.1.0.1",
		},
		{
			"a new one avoids what a gone one left",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", "")},
			map[AdapterKey]Lease{b0: held(0, "10.1.0.4")},
			"a0=1/10.1.0.5 b0=0/10.1.0.4",
		},
		{
			"the number of one that just went rests",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", "")},
			map[AdapterKey]Lease{b0: held(1, "10.1.0.4")},
			"a0=2/10.1.0.5 b0=0/10.1.0.4",
		},
		{
			"one that returns gets its address back",
			[]AppAdapterConfig{adapterConfig(appB, 0, "", "")},
			map[AdapterKey]Lease{b0: held(0, "10.1.0.6")},
			"b0=1/10.1.0.6",
		},
		{
			"when all is leased the lowest left behind is used",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", ""), adapterConfig(appA, 1, "", "")},
			map[AdapterKey]Lease{a1: held(1, "10.1.0.5"), b0: held(0, "10.1.0.4"), b1: held(0, "10.1.0.6")},
			"a0=2/10.1.0.4 a1=1/10.1.0.5 b1=0/10.1.0.6",
		},
		{
			"exhausted",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", ""), adapterConfig(appA, 1, "", ""), adapterConfig(appA, 2, "", ""), adapterConfig(appA, 3, "", "")},
			nil,
			"a0=1/10.1.0.4 a1=2/10.1.0.5 a2=3/10.1.0.6 a3!no free IP addresses in DHCP range 10.1.0.4-10.1.0.6",
		},
		{
			"a MAC twice",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", "02:00:00:00:00:01"), adapterConfig(appB, 0, "", "02:00:00:00:00:01")},
			nil,
			"a0=1/10.1.0.4 b0!MAC 02:00:00:00:00:01 is taken by adapter " + a0.String(),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := say(Allocate(c, tc.adapters, tc.held)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// Which addresses of a subnet an adapter may have: RFC 3021 gives both of a /31 to hosts.
func TestUsableAddresses(t *testing.T) {
	for _, tc := range []struct{ subnet, gateway, usable, not string }{
		{"10.1.0.0/29", "10.1.0.1", "10.1.0.2 10.1.0.6", "10.1.0.0 10.1.0.1 10.1.0.7 10.1.0.8 fd00::2"},
		{"10.1.0.0/30", "10.1.0.1", "10.1.0.2", "10.1.0.0 10.1.0.1 10.1.0.3"},
		{"10.1.0.0/31", "10.1.0.0", "10.1.0.1", "10.1.0.0 10.1.0.2"},
		{"10.1.0.0/31", "10.1.0.1", "10.1.0.0", "10.1.0.1"},
	} {
		a := allocator{cfg: NetworkInstanceConfig{IPv4: IPv4Config{Subnet: prefix(tc.subnet), Gateway: ip(tc.gateway)}}}
		for _, addr := range strings.Fields(tc.usable + " " + tc.not) {
			if got := a.usable(ip(addr)); got != slices.Contains(strings.Fields(tc.usable), addr) {
				t.Errorf("%s in %s with gateway %s: %v", addr, tc.subnet, tc.gateway, got)
			}
		}
	}
	if (&allocator{}).usable(netip.Addr{}) {
		t.Error("no address of no subnet is usable")
	}
}

// A number is part of names on the host: a held number is kept if it is valid and no other adapter's.
func TestNumbersOfAdapters(t *testing.T) {
	c := config()
	c.IPv4 = IPv4Config{Subnet: prefix("10.0.0.0/8"), Gateway: ip("10.0.0.1"), DHCPFirst: ip("10.0.0.2"),
		DHCPLast: ip("10.255.255.254")}
	a, b := key(appA, 0), key(appB, 0)
	for _, tc := range []struct{ a, b, wantA, wantB int }{
		{1, 1, 1, 2},
		{maxAdapterNums, 0, maxAdapterNums, 1},
		{maxAdapterNums + 1, 0, 1, 2},
		{-1, 0, 1, 2},
	} {
		held := map[AdapterKey]Lease{a: {Number: tc.a}, b: {Number: tc.b}}
		got := Allocate(c, []AppAdapterConfig{adapterConfig(appA, 0, "", ""), adapterConfig(appB, 0, "", "")}, held).Leases
		if got[a].Number != tc.wantA || got[b].Number != tc.wantB {
			t.Errorf("held %d and %d: %d and %d, want %d and %d", tc.a, tc.b, got[a].Number, got[b].Number, tc.wantA, tc.wantB)
		}
	}
	all := make([]AppAdapterConfig, maxAdapterNums+1)
	for i := range all {
		all[i] = adapterConfig(appA, i, "", "")
	}
	got, last := Allocate(c, all, nil), key(appA, maxAdapterNums)
	if got.Leases[key(appA, maxAdapterNums-1)].Number != maxAdapterNums || len(got.Errors) != 1 ||
		got.Errors[last] != fmt.Sprintf("no free adapter number in 1-%d", maxAdapterNums) {
		t.Errorf("of one too many: %v, %v", got.Leases[key(appA, maxAdapterNums-1)], got.Errors)
	}
}

func TestHeldMACIsKeptAndConfiguredWins(t *testing.T) {
	k := key(appA, 0)
	held := map[AdapterKey]Lease{k: {Number: 1, IP: ip("10.1.0.128"), MAC: "02:aa:aa:aa:aa:aa"}}
	if m := Allocate(config(), []AppAdapterConfig{adapterConfig(appA, 0, "", "")}, held).Leases[k].MAC; m != "02:aa:aa:aa:aa:aa" {
		t.Errorf("held MAC became %s", m)
	}
	if m := Allocate(config(), []AppAdapterConfig{adapterConfig(appA, 0, "", "02:BB:00:00:00:01")},
		held).Leases[k].MAC; m != "02:bb:00:00:00:01" {
		t.Errorf("configured MAC became %s", m)
	}
}

// Released addresses are assigned in the order of their release.
func TestTheAddressUnusedForLongestIsAssignedFirst(t *testing.T) {
	c := config()
	c.IPv4.DHCPFirst, c.IPv4.DHCPLast = ip("10.1.0.10"), ip("10.1.0.12")
	a := func(i int) AppAdapterConfig { return adapterConfig(appA, i, "", "") }
	held := map[AdapterKey]Lease{}
	var said []string
	for _, now := range [][]AppAdapterConfig{{a(0), a(1), a(2)}, {a(0), a(2)}, {a(2)}, {}, {a(3)}, {a(3), a(4)},
		{a(3), a(4), a(1)}} {
		alloc := Allocate(c, now, held)
		held = alloc.Leases
		said = append(said, say(alloc))
	}
	want := []string{
		"a0=1/10.1.0.10 a1=2/10.1.0.11 a2=3/10.1.0.12",
		"a0=1/10.1.0.10 a1=0/10.1.0.11 a2=3/10.1.0.12",
		"a0=0/10.1.0.10 a1=0/10.1.0.11 a2=3/10.1.0.12",
		"a0=0/10.1.0.10 a1=0/10.1.0.11 a2=0/10.1.0.12",
		"a0=0/10.1.0.10 a2=0/10.1.0.12 a3=1/10.1.0.11", // a1 was released first
		"a2=0/10.1.0.12 a3=1/10.1.0.11 a4=2/10.1.0.10", // then a0
		"a1=3/10.1.0.12 a3=1/10.1.0.11 a4=2/10.1.0.10", // it returns, and gets another
	}
	if d := cmp.Diff(want, said); d != "" {
		t.Error(d)
	}
}

// Apps that come and go under new UUIDs leave only a bounded memory.
func TestNoMoreThanTheLastThatWentAreRemembered(t *testing.T) {
	c := config()
	c.IPv4 = IPv4Config{Subnet: prefix("10.0.0.0/8"), Gateway: ip("10.0.0.1"), DHCPFirst: ip("10.0.0.2"),
		DHCPLast: ip("10.255.255.254")}
	held := map[AdapterKey]Lease{}
	one := func(i int) AppAdapterConfig { return adapterConfig(appA, i, "", "") }
	for i := range maxGone + 5 {
		held = Allocate(c, []AppAdapterConfig{one(i)}, held).Leases
	}
	held = Allocate(c, nil, held).Leases
	_, oldest := held[key(appA, 5)]
	_, older := held[key(appA, 4)]
	if len(held) != maxGone || !oldest || older {
		t.Errorf("%d are remembered, the last of them %v, one more %v", len(held), oldest, older)
	}
}

func TestMACs(t *testing.T) {
	const fixed, other = "02:00:00:00:00:01", "02:00:00:00:00:02"
	a0, b0 := key(appA, 0), key(appB, 0)
	generatedA, generatedB := adapterMAC(a0, netID, 0), adapterMAC(b0, netID, 0)
	lease := func(n int, mac string, isFixed bool) Lease {
		return Lease{Number: n, IP: ip("10.1.0.128").Next(), MAC: mac, FixedMAC: isFixed}
	}
	for _, tc := range []struct {
		name     string
		adapters []AppAdapterConfig
		held     map[AdapterKey]Lease
		want     map[AdapterKey]string // MAC or error
	}{
		{
			"one that was configured goes back to the generated one",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", "")},
			map[AdapterKey]Lease{a0: lease(1, fixed, true)},
			map[AdapterKey]string{a0: generatedA},
		},
		{
			"one that was generated in another way stays",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", "")},
			map[AdapterKey]Lease{a0: lease(1, other, false)},
			map[AdapterKey]string{a0: other},
		},
		{
			"a configured one passes on to another adapter at once",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", ""), adapterConfig(appB, 0, "", fixed)},
			map[AdapterKey]Lease{a0: lease(1, fixed, true)},
			map[AdapterKey]string{a0: generatedA, b0: fixed},
		},
		{
			"two swap their configured ones",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", other), adapterConfig(appB, 0, "", fixed)},
			map[AdapterKey]Lease{a0: lease(1, fixed, true), b0: lease(2, other, true)},
			map[AdapterKey]string{a0: other, b0: fixed},
		},
		{
			"one that is configured twice stays with whom it is with",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", fixed), adapterConfig(appB, 0, "", fixed)},
			map[AdapterKey]Lease{b0: lease(1, fixed, true)},
			map[AdapterKey]string{a0: "MAC " + fixed + " is taken by adapter " + b0.String(), b0: fixed},
		},
		{
			"a generated one in use is nobody else's by configuration",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", ""), adapterConfig(appB, 0, "", other)},
			map[AdapterKey]Lease{a0: lease(1, other, false)},
			map[AdapterKey]string{a0: other, b0: "MAC " + other + " is taken by adapter " + a0.String()},
		},
		{
			"the generated one of an adapter that has gone is free",
			[]AppAdapterConfig{adapterConfig(appB, 0, "", other)},
			map[AdapterKey]Lease{a0: lease(0, other, false)},
			map[AdapterKey]string{b0: other},
		},
		{
			"a generated one that another has by configuration makes way for the next",
			[]AppAdapterConfig{adapterConfig(appA, 0, "", generatedB), adapterConfig(appB, 0, "", "")},
			nil,
			map[AdapterKey]string{a0: generatedB, b0: adapterMAC(b0, netID, 1)},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := map[AdapterKey]string{}
			alloc := Allocate(config(), tc.adapters, tc.held)
			maps.Copy(got, alloc.Errors)
			for _, w := range tc.adapters {
				if l, ok := alloc.Leases[w.Key()]; ok {
					got[w.Key()] = l.MAC
				}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// A MAC that was configured is remembered as such while its adapter is away.
func TestAFixedMACIsNotKeptByOneThatReturns(t *testing.T) {
	with, k := []AppAdapterConfig{adapterConfig(appA, 0, "", "02:00:00:00:00:01")}, key(appA, 0)
	away := Allocate(config(), nil, Allocate(config(), with, nil).Leases).Leases
	if l := Allocate(config(), []AppAdapterConfig{adapterConfig(appA, 0, "", "")}, away).Leases[k]; l.MAC != adapterMAC(k, netID,
		0) || l.FixedMAC {
		t.Errorf("it has %+v", l)
	}
}

// A generated MAC never changes: a change of this value needs a new macVersion.
func TestGeneratedMACIsPinned(t *testing.T) {
	app, host := LinkMACs(key(appA, 0), netID)
	got := []string{app, host, adapterMAC(key(appA, 0), netID, 1),
		adapterMAC(key(appB, 7), uuid.MustParse("0a000000-0000-4000-8000-000000000001"), 0), BridgeMAC(netID)}
	want := []string{"02:f5:e2:e3:2f:a3", "fe:c3:80:a9:0d:ee", "02:c8:c3:87:55:98", "02:d3:8a:91:25:b1",
		"02:d5:4e:b2:10:20"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestLeaseIsJournalled(t *testing.T) {
	want := Lease{Number: 3, IP: ip("10.1.0.9"), MAC: "02:00:00:00:00:01", FixedMAC: true}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Lease
	if err := json.Unmarshal(b, &got); err != nil || got != want {
		t.Errorf("%s became %v, %v", b, got, err)
	}
}

// drawWishes draws adapters that collide often.
func drawWishes(t *rapid.T) []AppAdapterConfig {
	seen := map[AdapterKey]AppAdapterConfig{}
	for range rapid.IntRange(0, 12).Draw(t, "adapters") {
		app := rapid.SampledFrom([]uuid.UUID{appA, appB, netID}).Draw(t, "app")
		w := adapterConfig(app, rapid.IntRange(0, 4).Draw(t, "index"),
			rapid.SampledFrom([]string{"", "", "", "10.1.0.2", "10.1.0.3", "10.1.0.9", "10.9.9.9", "10.1.0.1"}).Draw(t, "ip"),
			rapid.SampledFrom([]string{"", "", "02:00:00:00:00:01", "02:00:00:00:00:02"}).Draw(t, "mac"))
		seen[w.Key()] = w
	}
	return slices.SortedFunc(maps.Values(seen), func(a, b AppAdapterConfig) int { return compareKeys(a.Key(), b.Key()) })
}

func TestAllocateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := config()
		c.IPv4.Subnet, c.IPv4.DHCPFirst, c.IPv4.DHCPLast = prefix("10.1.0.0/28"), ip("10.1.0.8"), ip("10.1.0.14")
		held := map[AdapterKey]Lease{}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			desiredAll := drawWishes(t)
			got := Allocate(c, desiredAll, held)
			mixed := slices.Clone(desiredAll)
			rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed"))).Shuffle(len(mixed),
				func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
			if d := cmp.Diff(got, Allocate(c, mixed, held), sameAddr); d != "" {
				t.Fatalf("order matters: %s", d)
			}
			again := Allocate(c, desiredAll, got.Leases)
			if d := cmp.Diff(got.Leases, again.Leases, sameAddr); d != "" {
				t.Fatalf("not sticky: %s", d)
			}
			checkUnique(t, desiredAll, got)
			for _, w := range desiredAll {
				before, after := held[w.Key()], got.Leases[w.Key()]
				if w.Spec.IP.IsValid() && after.IP.IsValid() && after.IP != w.Spec.IP {
					t.Fatalf("%s has %s instead of the configured %s", w.Key(), after.IP, w.Spec.IP)
				}
				if got.Errors[w.Key()] == "" && before.Number > 0 && after.Number != before.Number {
					t.Fatalf("%s went from number %d to %d", w.Key(), before.Number, after.Number)
				}
			}
			held = got.Leases
		}
	})
}

func checkUnique(t *rapid.T, desiredAll []AppAdapterConfig, got Allocation) {
	ips, macs, numbers := map[netip.Addr]bool{}, map[string]bool{}, map[int]bool{}
	current := map[AdapterKey]bool{}
	for _, w := range desiredAll {
		k := w.Key()
		current[k] = true
		l, ok := got.Leases[k]
		if ok == (got.Errors[k] != "") {
			t.Fatalf("%s has lease %v and error %q", k, l, got.Errors[k])
		}
		if !ok {
			continue
		}
		if numbers[l.Number] || macs[l.MAC] || l.Number < 1 || l.MAC == "" || l.IP == ip("10.1.0.1") {
			t.Fatalf("%s has %v in %s", k, l, say(got))
		}
		numbers[l.Number], macs[l.MAC] = true, true
	}
	for k, l := range got.Leases {
		if ips[l.IP] || !prefix("10.1.0.0/28").Contains(l.IP) || !current[k] && l.Number != 0 {
			t.Fatalf("%s has %v in %s", k, l, say(got))
		}
		ips[l.IP] = true
	}
}
