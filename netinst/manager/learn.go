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
	addressLifetime   = 10 * time.Minute // an address of which nothing was heard is forgotten
	addressCheckEvery = 30 * time.Second
	maxAddresses      = 16 // addresses of one adapter; more are not reported
)

// AddressObserved is an address that an app was seen to use. Sightings of local
// networks, of other MACs and of adapters that are not active are passed over.
type AddressObserved struct {
	Seen netstate.ObservedAddress
	At   time.Time
}

func (AddressObserved) niEvent() {}

// Listen asks for an AddressSeen of each address on these links, and on no others.
type Listen struct{ Links []string }

func (Listen) niEffect() {}

// addressTimes are the addresses of one adapter, by when they were heard last.
type addressTimes map[netip.Addr]time.Time

func (s addressTimes) addrs() []netip.Addr {
	return slices.SortedFunc(maps.Keys(s), netip.Addr.Compare)
}

// list spells all addresses as a status does.
func (s addressTimes) list() string {
	var words []string
	for _, a := range s.addrs() {
		words = append(words, a.String())
	}
	return strings.Join(words, ",")
}

// first is the one that a status names alone: the one leased, or the lowest.
func (s addressTimes) first(leased netip.Addr) netip.Addr {
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
		up := held && f.intent == desired && f.versions[k].Activate && !f.inactive && m.config.Type == netinst.Switch
		if !up || a.addressesMAC != l.MAC {
			a.addresses, a.addressesMAC, a.leased = nil, l.MAC, netip.Addr{}
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

// addressObserved notes an address and shows it when it is new. One that a DHCP server gives
// takes the place of the one that it gave before; there is room for it however many
// others an app has.
func (m *Manager) addressObserved(e AddressObserved) []Effect {
	if !e.Seen.IP.IsValid() || e.Seen.IP.IsUnspecified() {
		return nil // says nothing of what the app has
	}
	for _, k := range m.keys() {
		a := m.adapters[k]
		if !slices.Contains(m.links, e.Seen.Link) || e.Seen.MAC != a.addressesMAC || e.Seen.MAC == "" ||
			string(netinst.HostSide(m.owner.Number, a.lease.Number, a.config.UnderlayConfig)) != e.Seen.Link {
			continue
		}
		if a.addresses == nil {
			a.addresses = addressTimes{}
		}
		if e.Seen.Leased {
			if a.leased != e.Seen.IP {
				delete(a.addresses, a.leased)
			}
			a.leased = e.Seen.IP
		} else if _, known := a.addresses[e.Seen.IP]; !known && len(a.addresses) >= maxAddresses {
			return nil
		}
		a.addresses[e.Seen.IP] = e.At
		out := m.publishAddresses(a)
		if m.addressToken == 0 {
			out = append(out, m.checkAddresses())
		}
		return out
	}
	return nil
}

// expireAddresses forgets the addresses of which nothing was heard for long.
func (m *Manager) expireAddresses(now time.Time) []Effect {
	m.addressToken = 0
	var out []Effect
	left := 0
	for _, k := range m.keys() {
		a := m.adapters[k]
		maps.DeleteFunc(a.addresses, func(_ netip.Addr, at time.Time) bool { return now.Sub(at) >= addressLifetime })
		left += len(a.addresses)
		out = append(out, m.publishAddresses(a)...)
	}
	if left != 0 {
		out = append(out, m.checkAddresses())
	}
	return out
}

func (m *Manager) checkAddresses() Effect {
	m.token++
	m.addressToken = m.token
	return Timer{m.addressToken, addressCheckEvery, false}
}

// publishAddresses publishes an adapter's addresses if its last answer had others.
func (m *Manager) publishAddresses(a *adapterState) []Effect {
	if a.published == nil || !a.published.Activated {
		return nil
	}
	s := *a.published
	s.UnderlayStatus.IP, s.UnderlayStatus.Addresses = a.addresses.first(a.leased), a.addresses.list()
	if s == *a.published {
		return nil
	}
	a.published = &s
	return []Effect{PublishAdapter{s}}
}
