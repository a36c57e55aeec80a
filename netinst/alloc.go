package netinst

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Lease is what one adapter holds on its network: its number (1 to 9999, which names its link and chains), its address
// and its MAC. It is journalled, and does not expire; it is no DHCP lease (netstate.Leases), but the reservation from
// which dnsmasq leases the address.
type Lease struct {
	Number int        `json:"number"`
	IP     netip.Addr `json:"ip"`
	MAC    string     `json:"mac"`
	// FixedMAC means that MAC was configured: without its config it is not kept.
	FixedMAC bool `json:"fixedMAC,omitempty"`
	// Gone is 0 while the adapter exists; otherwise a higher value means a later removal.
	Gone uint64 `json:"gone,omitempty"`
}

// maxGone is how many removed adapters a network remembers, the latest ones. It bounds the journal when apps come and
// go under new UUIDs.
const maxGone = 1000

// Allocation is the result of Allocate.
//
// Leases is everything to be remembered: one lease for each adapter without an error, and the leases of the last
// maxGone removed adapters, with Number 0, as long as their address is not needed. It replaces the earlier leases;
// merging the two would restore reservations that were given away.
type Allocation struct {
	Leases map[AdapterKey]Lease
	Errors map[AdapterKey]string
}

// Allocate gives each adapter a number, an address and a MAC, and keeps those in held that are still valid. No two
// adapters ever share one of them, and the order of adapters does not matter.
//
// A configured IP wins. A configured MAC wins too, except over a MAC that was generated for another adapter and is in
// use: that one is kept, and the new adapter gets an error. (Config refuses the generated MACs that it can foresee.) A
// new address is the lowest free one of the DHCP range; if none is free, that of the adapter removed longest ago, which
// gets another address if it returns. The number of an adapter removed in this call is not reused in the same call,
// because its link may still exist behind the chains of that number.
func Allocate(cfg NetworkInstanceConfig, adapters []AppAdapterConfig, held map[AdapterKey]Lease) Allocation {
	want := map[AdapterKey]AppAdapterConfig{}
	for _, c := range adapters {
		want[c.Key()] = c
	}
	out := vlanErrors(cfg, adapters) // adapters without an address: other adapters can use the rest of their claims
	for {
		a := newAllocator(cfg, want, held, out)
		a.claimMACs()
		if cfg.Type != Switch { // other systems assign the addresses on a switch
			a.claimIPs()
		}
		a.reserveNumbers()
		if len(a.out.Errors) == 0 {
			maps.Copy(a.out.Errors, a.macErrors)
			maps.Copy(a.out.Errors, out)
			a.remember()
			return a.out
		}
		maps.Copy(out, a.out.Errors)
	}
}

func newAllocator(cfg NetworkInstanceConfig, want map[AdapterKey]AppAdapterConfig, held map[AdapterKey]Lease,
	out map[AdapterKey]string) *allocator {
	a := &allocator{
		cfg: cfg, held: held, want: want,
		ips: map[netip.Addr]AdapterKey{}, macs: map[string]AdapterKey{}, numbers: map[int]bool{},
		macErrors: map[AdapterKey]string{},
		out:       Allocation{Leases: map[AdapterKey]Lease{}, Errors: map[AdapterKey]string{}},
	}
	for k := range want {
		if out[k] == "" {
			a.keys = append(a.keys, k)
		}
	}
	for k := range held {
		if _, ok := want[k]; !ok {
			a.gone = append(a.gone, k)
		}
	}
	slices.SortFunc(a.keys, compareKeys)
	slices.SortFunc(a.gone, func(x, y AdapterKey) int {
		if c := cmp.Compare(a.removedAt(x), a.removedAt(y)); c != 0 {
			return c
		}
		return compareKeys(x, y)
	})
	return a
}

func compareKeys(a, b AdapterKey) int {
	if c := bytes.Compare(a.AppUUID[:], b.AppUUID[:]); c != 0 {
		return c
	}
	return a.Index - b.Index
}

type allocator struct {
	cfg     NetworkInstanceConfig
	want    map[AdapterKey]AppAdapterConfig
	held    map[AdapterKey]Lease
	keys    []AdapterKey // of want, sorted: those that still compete
	gone    []AdapterKey // of held and not of want, removed longest ago first
	ips     map[netip.Addr]AdapterKey
	macs    map[string]AdapterKey
	numbers map[int]bool
	// macErrors are separate: such an adapter gets another chance if the holder of its MAC got no address.
	macErrors map[AdapterKey]string
	out       Allocation
}

// removedAt returns when an adapter was removed; one that is missing only now comes after all others.
func (a *allocator) removedAt(k AdapterKey) uint64 {
	return cmp.Or(a.held[k].Gone, math.MaxUint64)
}

func (a *allocator) fail(k AdapterKey, format string, args ...any) {
	if a.out.Errors[k] == "" {
		a.out.Errors[k] = fmt.Sprintf(format, args...)
	}
}

// set stores part of a lease of k.
func (a *allocator) set(k AdapterKey, change func(*Lease)) {
	l := a.out.Leases[k]
	change(&l)
	a.out.Leases[k] = l
}

// claimMACs serves the strongest claims first: configured and already held, generated and held, configured, generated.
func (a *allocator) claimMACs() {
	configured := func(k AdapterKey) string { return strings.ToLower(a.want[k].Spec.MAC) }
	claim := func(k AdapterKey, mac string) bool {
		if _, taken := a.macs[mac]; taken {
			return false
		}
		a.macs[mac] = k
		a.set(k, func(l *Lease) { l.MAC, l.FixedMAC = mac, configured(k) != "" })
		return true
	}
	for _, k := range a.keys {
		if mac := configured(k); mac != "" && a.held[k].MAC == mac {
			claim(k, mac)
		}
	}
	for _, k := range a.keys {
		if h := a.held[k]; configured(k) == "" && h.MAC != "" && !h.FixedMAC {
			claim(k, h.MAC)
		}
	}
	for _, k := range a.keys {
		mac := configured(k)
		if mac == "" || a.out.Leases[k].MAC == mac {
			continue
		}
		if !claim(k, mac) {
			a.macErrors[k] = fmt.Sprintf("MAC %s is taken by adapter %s", mac, a.macs[mac])
		}
	}
	for _, k := range a.keys {
		for attempt := 0; a.out.Leases[k].MAC == "" && a.macErrors[k] == ""; attempt++ {
			claim(k, adapterMAC(k, a.cfg.UUID, attempt))
		}
	}
	a.keys = slices.DeleteFunc(a.keys, func(k AdapterKey) bool { return a.macErrors[k] != "" })
}

func (a *allocator) claimIPs() {
	claim := func(k AdapterKey, ip netip.Addr) bool {
		if _, taken := a.ips[ip]; taken {
			return false
		}
		a.ips[ip] = k
		a.set(k, func(l *Lease) { l.IP = ip })
		return true
	}
	static := func(k AdapterKey) netip.Addr { return a.want[k].Spec.IP }
	for _, k := range a.keys {
		if ip := static(k); ip.IsValid() && a.held[k].IP == ip && a.usable(ip) {
			claim(k, ip)
		}
	}
	for _, k := range a.keys {
		ip := static(k)
		switch {
		case !ip.IsValid() || a.out.Leases[k].IP == ip:
		case !a.usable(ip):
			a.fail(k, "address %s can't be used in %s with gateway %s", ip, a.cfg.IPv4.Subnet, a.cfg.IPv4.Gateway)
		case !claim(k, ip):
			a.fail(k, "address %s is taken by adapter %s", ip, a.ips[ip])
		}
	}
	for _, k := range a.keys {
		// An address outside the range was configured, or the range has moved.
		if ip := a.held[k].IP; !static(k).IsValid() && a.usable(ip) && a.inRange(ip) {
			claim(k, ip)
		}
	}
	released := map[netip.Addr]bool{}
	for _, k := range a.gone {
		released[a.held[k].IP] = true
	}
	fresh := newCursor(a.cfg.IPv4, func(ip netip.Addr) bool { return a.free(ip) && !released[ip] })
	for _, k := range a.keys {
		if static(k).IsValid() || a.out.Leases[k].IP.IsValid() {
			continue
		}
		ip, ok := fresh.next()
		if !ok {
			ip, ok = a.oldest()
		}
		if !ok {
			a.fail(k, "no free IP addresses in DHCP range %s-%s", a.cfg.IPv4.DHCPFirst, a.cfg.IPv4.DHCPLast)
			continue
		}
		claim(k, ip)
	}
}

// usable reports whether an adapter may have ip: a host address of the subnet other than the gateway.
func (a *allocator) usable(ip netip.Addr) bool {
	s := a.cfg.IPv4.Subnet
	if !s.Contains(ip) || ip == a.cfg.IPv4.Gateway {
		return false
	}
	return s.Bits() >= 31 || ip != s.Masked().Addr() && ip != lastAddress(s) // RFC 3021: a /31 has no broadcast
}

func (a *allocator) free(ip netip.Addr) bool {
	_, taken := a.ips[ip]
	return !taken && a.usable(ip)
}

// cursor walks the DHCP range once, so that filling a large range stays linear.
type cursor struct {
	at, last netip.Addr
	ok       func(netip.Addr) bool
}

func newCursor(c IPv4Config, ok func(netip.Addr) bool) *cursor {
	return &cursor{at: c.DHCPFirst, last: c.DHCPLast, ok: ok}
}

func (c *cursor) next() (netip.Addr, bool) {
	for c.at.IsValid() && c.at.Compare(c.last) <= 0 {
		ip := c.at
		c.at = c.at.Next()
		if c.ok(ip) {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

// oldest returns the address in the range that was given up longest ago.
func (a *allocator) oldest() (netip.Addr, bool) {
	for _, k := range a.gone {
		if ip := a.held[k].IP; a.inRange(ip) && a.free(ip) {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

// remember keeps the reservations of the adapters removed last.
func (a *allocator) remember() {
	var last uint64
	for _, l := range a.held {
		last = max(last, l.Gone)
	}
	for i, k := range a.gone {
		l := a.held[k]
		if !a.free(l.IP) || len(a.gone)-i > maxGone {
			continue
		}
		if l.Gone == 0 {
			l.Gone = last + 1
		}
		l.Number = 0
		a.ips[l.IP] = k
		a.out.Leases[k] = l
	}
}

func (a *allocator) reserveNumbers() {
	valid := func(n int) bool { return n >= 1 && n <= maxAdapterNums && !a.numbers[n] }
	for _, k := range a.keys {
		if n := a.held[k].Number; valid(n) {
			a.numbers[n] = true
			a.set(k, func(l *Lease) { l.Number = n })
		}
	}
	for _, l := range a.held { // including removed adapters and those without a lease
		a.numbers[l.Number] = true
	}
	next := 1
	for _, k := range a.keys {
		if a.out.Leases[k].Number != 0 {
			continue
		}
		for next <= maxAdapterNums && a.numbers[next] {
			next++
		}
		if next > maxAdapterNums {
			a.fail(k, "no free adapter number in 1-%d", maxAdapterNums)
			continue
		}
		a.numbers[next] = true
		a.set(k, func(l *Lease) { l.Number = next })
	}
}

// inRange reports whether an address is in the range for generated addresses.
func (a *allocator) inRange(ip netip.Addr) bool {
	return ip.Compare(a.cfg.IPv4.DHCPFirst) >= 0 && ip.Compare(a.cfg.IPv4.DHCPLast) <= 0
}

// macVersion names the method that generates MACs from words. A MAC in use is journalled, so a new version affects new
// adapters only.
const macVersion = "edgespan mac 1"

// First octets: both mean locally administered unicast (IEEE 802 §8.4). The host's side starts with 0xfe, so that it is
// never the lowest MAC among a bridge's ports and never equals a generated MAC of an app.
const (
	macApp  = 0x02
	macHost = 0xfe
)

// generatedMAC is a MAC that depends on words alone: first, then 40 bits of their hash.
func generatedMAC(first byte, words ...string) string {
	h := sha256.Sum256([]byte(macVersion + "|" + strings.Join(words, "|")))
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", first, h[0], h[1], h[2], h[3], h[4])
}

// adapterMAC is the MAC of the app's side; attempt counts up if two adapters of one network would share one.
func adapterMAC(k AdapterKey, network uuid.UUID, attempt int) string {
	return generatedMAC(macApp, "adapter", k.String(), network.String(), fmt.Sprint(attempt))
}

// LinkMACs returns the default MACs of an adapter's links: the app's side (unless one is configured) and the host's.
func LinkMACs(k AdapterKey, network uuid.UUID) (app, host string) {
	return adapterMAC(k, network, 0), hostSideMAC(k, network)
}

func hostSideMAC(k AdapterKey, network uuid.UUID) string {
	return generatedMAC(macHost, "host side", k.String(), network.String())
}

// BridgeMAC is the MAC of a network's bridge.
func BridgeMAC(network uuid.UUID) string {
	return generatedMAC(macApp, "bridge", network.String())
}

// lastAddress is the highest address of an IPv4 prefix.
func lastAddress(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		a[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(a)
}
