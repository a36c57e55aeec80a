package wireguard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"edgespan/netinst/netstate"
)

// config is the configuration of an interface, desired or observed.
type config struct {
	private key
	port    int // 0 for any, if desired
	mark    uint32
	peers   map[key]peer // by public key
}

// peer is one peer of an interface.
type peer struct {
	preshared key
	endpoint  netip.AddrPort // invalid if unknown
	keepalive int
	allowed   []netip.Prefix // sorted, masked

	// Of an observed one.
	handshake      time.Time // zero: none yet
	received, sent uint64
}

// desired returns the configuration of v with a private key. Endpoints that are names remain unknown.
func desired(v netstate.VPN, private key) (config, error) {
	w := v.WireGuard
	c := config{private: private.clamped(), port: w.ListenPort, mark: v.Mark, peers: map[key]peer{}}
	own, err := c.private.public()
	if err != nil {
		return config{}, err
	}
	owner := map[netip.Prefix]string{}
	for _, p := range w.Peers {
		public, one, err := desiredPeer(p)
		switch _, twice := c.peers[public]; {
		case err != nil:
			return config{}, fmt.Errorf("peer %s: %w", p.Name, err)
		case public == own && w.Identity == netstate.ClustersIdentity: // a member claims it: the others must not suffer
			continue
		case public == own:
			return config{}, fmt.Errorf("peer %s: public key: is this node's own", p.Name)
		case twice:
			return config{}, fmt.Errorf("peer %s: public key: is that of another peer, too", p.Name)
		}
		for _, prefix := range one.allowed {
			if other, ok := owner[prefix]; ok {
				return config{}, fmt.Errorf("peer %s: allowed IPs: %s is of peer %s, too", p.Name, prefix, other)
			}
			owner[prefix] = p.Name
		}
		c.peers[public] = one
	}
	return c, nil
}

func desiredPeer(p netstate.WireGuardPeer) (key, peer, error) {
	public, err := parseKey(p.PublicKey)
	if err != nil {
		return key{}, peer{}, fmt.Errorf("public key: %w", err)
	}
	one := peer{keepalive: p.Keepalive}
	if p.PresharedKey != "" {
		if one.preshared, err = parseKey(p.PresharedKey); err != nil {
			return key{}, peer{}, fmt.Errorf("preshared key: %w", err)
		}
	}
	if p.Endpoint != "" {
		if _, _, err := splitEndpoint(p.Endpoint); err != nil {
			return key{}, peer{}, err
		}
		one.endpoint, _ = netip.ParseAddrPort(p.Endpoint) // a name remains unknown
	}
	for _, a := range p.AllowedIPs {
		one.allowed = append(one.allowed, a.Masked())
	}
	one.allowed = sorted(one.allowed)
	return public, one, nil
}

// splitEndpoint splits "host:port".
func splitEndpoint(s string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(s)
	n, perr := strconv.ParseUint(text, 10, 16)
	if err != nil || perr != nil || n == 0 || host == "" {
		return "", 0, fmt.Errorf("endpoint %q: must be HOST:PORT", s)
	}
	return host, uint16(n), nil
}

func sorted(ps []netip.Prefix) []netip.Prefix {
	slices.SortFunc(ps, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(ps)
}

func (c config) clone() config {
	c.peers = maps.Clone(c.peers)
	return c
}

// digest is of everything of a configuration that must be as desired, with the salt of its record. A peer's endpoint
// roams, so it is not part of it, and neither is a port that may be any.
func (c config) digest(salt string, anyPort bool) string {
	var b strings.Builder
	port := c.port
	if anyPort {
		port = 0
	}
	fmt.Fprintf(&b, "%s %s %d %d\n", salt, c.private.hex(), port, c.mark)
	for _, public := range sortedKeys(c.peers) {
		p := c.peers[public]
		fmt.Fprintf(&b, "%s %s %d %v\n", public.hex(), p.preshared.hex(), p.keepalive, p.allowed)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:])
}

func sortedKeys[V any](m map[key]V) []key {
	return slices.SortedFunc(maps.Keys(m), func(a, b key) int { return slices.Compare(a[:], b[:]) })
}

// change is what makes one configuration into another; nil and empty fields stay as they are.
type change struct {
	private *key
	port    *int
	mark    *uint32
	peers   []peerChange // additions before removals, so that an allowed IP that moves always has an owner
}

type peerChange struct {
	public    key
	remove    bool
	preshared *key
	endpoint  netip.AddrPort // set if valid
	keepalive *int
	add, drop []netip.Prefix
}

func (p peerChange) empty() bool {
	return !p.remove && p.preshared == nil && p.keepalive == nil && !p.endpoint.IsValid() && len(p.add)+len(p.drop) == 0
}

func (c change) empty() bool {
	return c.private == nil && c.port == nil && c.mark == nil && len(c.peers) == 0
}

// diff returns the change from have to want. moved tells of a peer that both have whether its endpoint must be set to
// the wanted one; else it stays where it has roamed to.
func diff(have, want config, moved func(public key) bool) change {
	var c change
	if have.private != want.private {
		c.private = &want.private
	}
	if have.mark != want.mark {
		c.mark = &want.mark
	}
	if want.port != 0 && have.port != want.port {
		c.port = &want.port
	}
	taken := map[netip.Prefix]bool{} // by another peer, which takes it from its owner
	for _, public := range sortedKeys(want.peers) {
		w := want.peers[public]
		h, known := have.peers[public]
		p := peerChange{public: public, add: without(w.allowed, h.allowed), drop: without(h.allowed, w.allowed)}
		if !known || h.preshared != w.preshared {
			p.preshared = &w.preshared
		}
		if !known || h.keepalive != w.keepalive {
			p.keepalive = &w.keepalive
		}
		if w.endpoint.IsValid() && h.endpoint != w.endpoint && (!known || moved(public)) {
			p.endpoint = w.endpoint
		}
		for _, a := range p.add {
			taken[a] = true
		}
		c.peers = append(c.peers, p)
	}
	for i, p := range c.peers {
		c.peers[i].drop = slices.DeleteFunc(p.drop, func(a netip.Prefix) bool { return taken[a] })
	}
	c.peers = slices.DeleteFunc(c.peers, peerChange.empty)
	for _, public := range sortedKeys(have.peers) {
		if _, stays := want.peers[public]; !stays {
			c.peers = append(c.peers, peerChange{public: public, remove: true})
		}
	}
	return c
}

func without(ps, others []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(ps), func(a netip.Prefix) bool { return slices.Contains(others, a) })
}
