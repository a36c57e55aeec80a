package netinst

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/uuid"
)

// Lease is what an adapter keeps over restarts and unrelated changes. It is
// journalled (design §3 "Addresses are sticky").
type Lease struct {
	Number int        `json:"number"` // k of es<n>a<k>
	IP     netip.Addr `json:"ip"`
	MAC    string     `json:"mac"`
}

// Allocation is a lease, or the reason for none, for each adapter asked for.
type Allocation struct {
	Leases map[AdapterKey]Lease
	Errors map[AdapterKey]string
}

// Allocate gives each adapter its number, address and MAC. What held says is kept
// where it is still valid; a configured address or MAC wins; new addresses come
// from the range in order, those that were never leased first. Leases of adapters
// that are not asked for stay reserved until the range is exhausted. The order of
// adapters does not matter, and no two leases share a number, an address or a MAC.
func Allocate(cfg NetworkInstanceConfig, adapters []AppAdapterConfig, held map[AdapterKey]Lease) Allocation {
	out := Allocation{Leases: map[AdapterKey]Lease{}, Errors: map[AdapterKey]string{}}
	adapters = slices.SortedFunc(slices.Values(adapters), func(a, b AppAdapterConfig) int {
		return compareKeys(a.Key(), b.Key())
	})
	asked := map[AdapterKey]bool{}
	for _, c := range adapters {
		asked[c.Key()] = true
	}
	ips := allocateIPs(cfg, adapters, held, asked)
	numbers := allocateNumbers(adapters, held, asked)
	for _, c := range adapters {
		k := c.Key()
		switch {
		case !ips[k].IsValid():
			out.Errors[k] = fmt.Sprintf("no free address in %s-%s", cfg.IPv4.DHCPFirst, cfg.IPv4.DHCPLast)
		case numbers[k] == 0:
			out.Errors[k] = fmt.Sprintf("no free adapter number: %d are allowed on one network", maxAdapterNums)
		default:
			out.Leases[k] = Lease{Number: numbers[k], IP: ips[k], MAC: leaseMAC(cfg.UUID, c, held[k])}
		}
	}
	return out
}

// allocateIPs gives addresses: configured ones, held ones, new ones.
func allocateIPs(cfg NetworkInstanceConfig, adapters []AppAdapterConfig, held map[AdapterKey]Lease, asked map[AdapterKey]bool) map[AdapterKey]netip.Addr {
	given := map[AdapterKey]netip.Addr{}
	used := map[netip.Addr]bool{cfg.IPv4.Gateway: true}
	for _, c := range adapters {
		if ip := c.UnderlayConfig.IP; ip.IsValid() && !used[ip] {
			given[c.Key()], used[ip] = ip, true
		}
	}
	for _, c := range adapters {
		ip := held[c.Key()].IP
		if !given[c.Key()].IsValid() && !c.UnderlayConfig.IP.IsValid() && inRange(cfg.IPv4, ip) && !used[ip] {
			given[c.Key()], used[ip] = ip, true
		}
	}
	reserved := map[netip.Addr]bool{}
	for k, l := range held {
		if !asked[k] {
			reserved[l.IP] = true
		}
	}
	next, again := cfg.IPv4.DHCPFirst, cfg.IPv4.DHCPFirst
	for _, c := range adapters {
		if given[c.Key()].IsValid() || c.UnderlayConfig.IP.IsValid() {
			continue
		}
		for inRange(cfg.IPv4, next) && (used[next] || reserved[next]) {
			next = next.Next()
		}
		ip := next
		if !inRange(cfg.IPv4, ip) { // only what was leased before is left
			for inRange(cfg.IPv4, again) && used[again] {
				again = again.Next()
			}
			if ip = again; !inRange(cfg.IPv4, ip) {
				continue
			}
		}
		given[c.Key()], used[ip] = ip, true
	}
	return given
}

func inRange(c IPv4Config, ip netip.Addr) bool {
	return ip.IsValid() && ip.Compare(c.DHCPFirst) >= 0 && ip.Compare(c.DHCPLast) <= 0
}

// allocateNumbers gives numbers: held ones, then the lowest that nobody holds,
// then the lowest that nobody asked for.
func allocateNumbers(adapters []AppAdapterConfig, held map[AdapterKey]Lease, asked map[AdapterKey]bool) map[AdapterKey]int {
	given := map[AdapterKey]int{}
	used, reserved := map[int]bool{}, map[int]bool{}
	for _, c := range adapters {
		if n := held[c.Key()].Number; n > 0 && !used[n] {
			given[c.Key()], used[n] = n, true
		}
	}
	for k, l := range held {
		if !asked[k] {
			reserved[l.Number] = true
		}
	}
	next, again := 1, 1
	for _, c := range adapters {
		if given[c.Key()] != 0 {
			continue
		}
		for used[next] || reserved[next] {
			next++
		}
		n := next
		if n > maxAdapterNums {
			for used[again] {
				again++
			}
			if n = again; n > maxAdapterNums {
				continue
			}
		}
		given[c.Key()], used[n] = n, true
	}
	return given
}

func leaseMAC(ni uuid.UUID, c AppAdapterConfig, held Lease) string {
	switch {
	case c.UnderlayConfig.MAC != "":
		return c.UnderlayConfig.MAC
	case held.MAC != "":
		return held.MAC
	}
	return generatedMAC("adapter", ni, c.AppUUID, c.UnderlayIndex)
}

// generatedMAC is generator 1: a locally administered unicast address made of what
// it is for, so that it is the same on every start and after every upgrade. A held
// MAC wins over it, so a later generator changes no running adapter.
func generatedMAC(what string, ni, app uuid.UUID, index int) string {
	h := sha256.New()
	h.Write([]byte("edgespan mac 1 " + what))
	h.Write(ni[:])
	h.Write(app[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(index)))
	mac := h.Sum(nil)[:6]
	mac[0] = 0x02
	if what == "host" {
		mac[0] = 0xfe // higher than any other: it never becomes the bridge's
	}
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5])
}

func compareKeys(a, b AdapterKey) int {
	return cmp.Or(slices.Compare(a.AppUUID[:], b.AppUUID[:]), cmp.Compare(a.UnderlayIndex, b.UnderlayIndex))
}
