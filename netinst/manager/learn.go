package manager

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// What a bridge manager learns of the addresses on a switch network, where it gives
// none.
const (
	seenFor   = 10 * time.Minute // an address of which nothing was heard is forgotten
	seenCheck = 30 * time.Second
	maxSeen   = 16 // addresses of one adapter; more are not reported
)

// AddressSeen is an address that an app was seen to use. Sightings of local
// networks, of other MACs and of adapters that are not active are passed over.
type AddressSeen struct {
	Seen netstate.Seen
	At   time.Time
}

func (AddressSeen) niEvent() {}

// Listen asks for an AddressSeen of each address on these links, and on no others.
type Listen struct{ Links []string }

func (Listen) niEffect() {}

// seen are the addresses of one adapter, by when they were heard last.
type seen map[netip.Addr]time.Time

func (s seen) addrs() []netip.Addr { return slices.SortedFunc(maps.Keys(s), netip.Addr.Compare) }

// list spells all addresses as a status does.
func (s seen) list() string {
	var words []string
	for _, a := range s.addrs() {
		words = append(words, a.String())
	}
	return strings.Join(words, ",")
}

// first is the one that a status names alone: the one leased, or the lowest.
func (s seen) first(leased netip.Addr) netip.Addr {
	if _, is := s[leased]; is {
		return leased
	}
	if all := s.addrs(); len(all) > 0 {
		return all[0]
	}
	return netip.Addr{}
}

// listen says on which links to listen, when these are others than before. It also
// forgets what was learnt of adapters that have gone or have another MAC.
func (m *Manager) listen(f *flight) []Effect {
	var links []string
	for _, k := range m.keys() {
		a := m.adapters[k]
		l, held := f.leases[k]
		up := held && f.wish == wanted && f.versions[k].Activate && !f.inactive && m.config.Type == netinst.Switch
		if !up || a.seenMAC != l.MAC {
			a.seen, a.seenMAC, a.leased = nil, l.MAC, netip.Addr{}
		}
		if up {
			links = append(links, string(netinst.HostSide(m.owner.Number, l.Number, f.versions[k].UnderlayConfig)))
		}
	}
	if slices.Equal(links, m.links) {
		return nil
	}
	m.links = links
	return []Effect{Listen{slices.Clone(links)}}
}

// addressSeen notes an address and shows it when it is new. One that a DHCP server gives
// takes the place of the one that it gave before; there is room for it however many
// others an app has.
func (m *Manager) addressSeen(e AddressSeen) []Effect {
	if !e.Seen.IP.IsValid() || e.Seen.IP.IsUnspecified() {
		return nil // says nothing of what the app has
	}
	for _, k := range m.keys() {
		a := m.adapters[k]
		if !slices.Contains(m.links, e.Seen.Link) || e.Seen.MAC != a.seenMAC || e.Seen.MAC == "" ||
			string(netinst.HostSide(m.owner.Number, a.lease.Number, a.config.UnderlayConfig)) != e.Seen.Link {
			continue
		}
		if a.seen == nil {
			a.seen = seen{}
		}
		if e.Seen.Leased {
			if a.leased != e.Seen.IP {
				delete(a.seen, a.leased)
			}
			a.leased = e.Seen.IP
		} else if _, known := a.seen[e.Seen.IP]; !known && len(a.seen) >= maxSeen {
			return nil
		}
		a.seen[e.Seen.IP] = e.At
		out := m.showSeen(a)
		if m.seenTok == 0 {
			out = append(out, m.checkSeen())
		}
		return out
	}
	return nil
}

// forgetSeen forgets the addresses of which nothing was heard for long.
func (m *Manager) forgetSeen(now time.Time) []Effect {
	m.seenTok = 0
	var out []Effect
	left := 0
	for _, k := range m.keys() {
		a := m.adapters[k]
		maps.DeleteFunc(a.seen, func(_ netip.Addr, at time.Time) bool { return now.Sub(at) >= seenFor })
		left += len(a.seen)
		out = append(out, m.showSeen(a)...)
	}
	if left != 0 {
		out = append(out, m.checkSeen())
	}
	return out
}

func (m *Manager) checkSeen() Effect {
	m.token++
	m.seenTok = m.token
	return Timer{m.seenTok, seenCheck, false}
}

// showSeen publishes an adapter's addresses if its last answer had others.
func (m *Manager) showSeen(a *adapterState) []Effect {
	if a.published == nil || !a.published.Activated {
		return nil
	}
	s := *a.published
	s.UnderlayStatus.IP, s.UnderlayStatus.Addresses = a.seen.first(a.leased), a.seen.list()
	if s == *a.published {
		return nil
	}
	a.published = &s
	return []Effect{PublishAdapter{s}}
}
