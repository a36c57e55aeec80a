package manager

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/watched"
)

// Limits of what a bridge manager learns about addresses on a switch network, which assigns none itself.
const (
	addressLifetime   = 10 * time.Minute // an address is forgotten after this time without a sign of it
	addressCheckEvery = 30 * time.Second
	maxAddresses      = 16 // addresses of one adapter; more are not reported
)

// AddressObserved reports an address that an app was observed to use. Observations on local networks, of other MACs and
// of inactive adapters are ignored.
type AddressObserved struct {
	Address netstate.ObservedAddress
	At      time.Time
}

func (AddressObserved) niEvent() {}

// LeaseObserved reports that the lease of an adapter is another one; Word is as in watched.Lease.
type LeaseObserved struct {
	Key  netinst.AdapterKey
	Word string
}

func (LeaseObserved) niEvent() {}

// Listen asks for an AddressObserved for each address on these links, and on no others, and to watch the DNS and DHCP
// messages of these adapters.
type Listen struct {
	Links   []string
	Watched []watched.Adapter
}

func (Listen) niEffect() {}

// addressTimes are the addresses of one adapter, with the time each was last observed.
type addressTimes map[netip.Addr]time.Time

func (s addressTimes) addrs() []netip.Addr {
	return slices.SortedFunc(maps.Keys(s), netip.Addr.Compare)
}

// list formats all addresses for a status.
func (s addressTimes) list() string {
	var words []string
	for _, a := range s.addrs() {
		words = append(words, a.String())
	}
	return strings.Join(words, ",")
}

// primary returns the address that a status names alone: the leased one, or the lowest.
func (s addressTimes) primary(leased netip.Addr) netip.Addr {
	if _, ok := s[leased]; ok {
		return leased
	}
	if all := s.addrs(); len(all) > 0 {
		return all[0]
	}
	return netip.Addr{}
}

// listen asks to listen on the links of the flight, if they have changed. It also forgets the addresses and leases of
// adapters that have gone or have another MAC.
func (m *Manager) listen(f *flight) []Effect {
	var to Listen
	for _, k := range m.keys() {
		a := m.adapters[k]
		l, held := f.leases[k]
		up := held && f.intent == desired && f.versions[k].Activate && !f.inactive
		if !up || a.addressesMAC != l.MAC {
			a.addresses, a.addressesMAC, a.leased, a.leaseWord = nil, l.MAC, netip.Addr{}, ""
		}
		switch {
		case !up:
		case m.config.Type == netinst.Switch:
			link := string(netinst.HostSide(m.owner.Number, l.Number, f.versions[k].Spec))
			to.Links = append(to.Links, link)
			to.Watched = append(to.Watched, watched.Adapter{Key: k, Link: link, MAC: l.MAC})
		default:
			to.Watched = append(to.Watched, watched.Adapter{Key: k, Link: string(netinst.BridgeName(m.owner.Number)),
				MAC: l.MAC, IP: l.IP})
		}
	}
	if slices.Equal(to.Links, m.listening.Links) && slices.Equal(to.Watched, m.listening.Watched) {
		return nil
	}
	m.listening = to
	return []Effect{Listen{slices.Clone(to.Links), slices.Clone(to.Watched)}}
}

// leaseObserved publishes an adapter's lease if it differs from its last answer.
func (m *Manager) leaseObserved(e LeaseObserved) []Effect {
	a := m.adapters[e.Key]
	if a == nil {
		return nil
	}
	a.leaseWord = e.Word
	return m.publishAddresses(a)
}

// addressObserved records an address, and publishes it if it is new. An address from a DHCP server replaces the one
// leased before; there is always room for it, however many others an app has.
func (m *Manager) addressObserved(e AddressObserved) []Effect {
	if !e.Address.IP.IsValid() || e.Address.IP.IsUnspecified() {
		return nil // it says nothing about the app's addresses
	}
	for _, k := range m.keys() {
		a := m.adapters[k]
		if !slices.Contains(m.listening.Links, e.Address.Link) || e.Address.MAC != a.addressesMAC || e.Address.MAC == "" ||
			string(netinst.HostSide(m.owner.Number, a.lease.Number, a.config.Spec)) != e.Address.Link {
			continue
		}
		if a.addresses == nil {
			a.addresses = addressTimes{}
		}
		if e.Address.Leased {
			if a.leased != e.Address.IP {
				delete(a.addresses, a.leased)
			}
			a.leased = e.Address.IP
		} else if _, known := a.addresses[e.Address.IP]; !known && len(a.addresses) >= maxAddresses {
			return nil
		}
		a.addresses[e.Address.IP] = e.At
		out := m.publishAddresses(a)
		if m.addressToken == 0 {
			out = append(out, m.checkAddresses())
		}
		return out
	}
	return nil
}

// expireAddresses forgets addresses that were not observed within addressLifetime.
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

// publishAddresses publishes an adapter's addresses and lease if they differ from its last answer.
func (m *Manager) publishAddresses(a *adapterState) []Effect {
	if a.published == nil || !a.published.Activated {
		return nil
	}
	s := *a.published
	if s.Link.Lease = a.leaseWord; m.config.Type == netinst.Switch {
		s.Link.IP, s.Link.Addresses = a.addresses.primary(a.leased), a.addresses.list()
	}
	if s == *a.published {
		return nil
	}
	a.published = &s
	return []Effect{PublishAdapter{s}}
}
