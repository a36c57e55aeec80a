package ipsec

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"edgespan/netinst/netstate"
)

// staleAfter is the age of a status that says nothing about now.
const staleAfter = askTime + askUp + 2*round

// Status returns what the keeper of a tunnel has observed last, at most a moment ago. It asks no process, so it never
// hangs.
func (t *Tunnels) Status(ctx context.Context, number int) (netstate.TunnelStatus, error) {
	x := t.tunnel(number)
	x.mu.Lock()
	k := x.keeper
	x.mu.Unlock()
	if k == nil { // of an earlier daemon, and not observed yet
		r, err := read(t.folder(netstate.VPNName(number)))
		if err != nil {
			return netstate.TunnelStatus{}, err
		}
		s := netstate.TunnelStatus{Number: number, Kind: "ipsec", By: r.By, Link: r.Link, Error: "charon has ended"}
		if !r.Alive() {
			return s, nil
		}
		t.keep(x, r)
		x.mu.Lock()
		k = x.keeper
		x.mu.Unlock()
		if k == nil {
			return s, errors.New("the tunnels are closed")
		}
	}
	return k.status(ctx)
}

// status waits for a first look.
func (k *keeper) status(ctx context.Context) (netstate.TunnelStatus, error) {
	for {
		k.mu.Lock()
		s, when := k.last, k.when
		k.mu.Unlock()
		switch {
		case !k.r.Alive():
			s = k.empty("charon has ended")
			return s, nil
		case when.IsZero():
		case time.Since(when) > staleAfter:
			return k.empty("charon does not answer"), nil
		default:
			return s, nil
		}
		select {
		case <-ctx.Done():
			return netstate.TunnelStatus{}, ctx.Err()
		case <-k.done:
			return k.empty("charon has ended"), nil
		case <-time.After(round / 10):
		}
	}
}

func (k *keeper) empty(why string) netstate.TunnelStatus {
	return netstate.TunnelStatus{Number: k.r.Number, Kind: "ipsec", By: k.r.By, Link: k.r.Link, Error: why}
}

// publish keeps what was observed. why is a cause that charon does not know, "" for none.
func (k *keeper) publish(sas []sa, why string) {
	s := k.empty("")
	up := slices.ContainsFunc(sas, func(x sa) bool { return slices.ContainsFunc(x.children, childSA.carries) })
	said := k.log.words.sentence(time.Now(), up)
	if why != "" {
		said = why
	}
	for _, x := range sas {
		p := k.peerStatus(x)
		p.Error = said
		s.Up = s.Up || p.Up
		s.Peers = append(s.Peers, p)
		for _, v := range x.vips {
			if a, err := netip.ParseAddr(v); err == nil && !slices.Contains(s.Addresses, netip.PrefixFrom(a, a.BitLen())) {
				s.Addresses = append(s.Addresses, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	k.forgetTotals(sas)
	if len(s.Peers) == 0 && k.r.Peer.Address != "" {
		s.Peers = []netstate.TunnelPeer{{Name: k.log.words.name(), Identity: k.r.Peer.RemoteID, Error: said}}
	}
	slices.SortFunc(s.Peers, func(a, b netstate.TunnelPeer) int {
		return strings.Compare(a.Name+a.Endpoint, b.Name+b.Endpoint)
	})
	s.Silent = !s.Up && why == "" && k.log.words.silent
	if s.Up {
		s.DNS = assignedDNS(filepath.Join(k.t.folder(k.r.Name), dnsFile))
	} else {
		s.Error = said
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last, k.when = s, time.Now()
}

func (k *keeper) peerStatus(x sa) netstate.TunnelPeer {
	p := netstate.TunnelPeer{Name: k.log.words.name(), Identity: x.who, Rekeys: k.log.words.rekeys}
	if p.Name == "(any)" || k.r.Peer.Address == "" {
		p.Name = x.who
	}
	if x.remoteHost != "" && x.remoteHost != "0.0.0.0" {
		p.Endpoint = net.JoinHostPort(x.remoteHost, x.remotePort)
	}
	count := k.totals[x.who]
	if count == nil {
		count = totals{}
		k.totals[x.who] = count
	}
	ages := []string{x.established}
	var spis []string
	for _, c := range x.children {
		in, errIn := strconv.ParseUint(c.bytesIn, 10, 64)
		out, errOut := strconv.ParseUint(c.bytesOut, 10, 64)
		if errIn == nil && errOut == nil {
			count[c.id] = [2]uint64{in, out}
		}
		if !c.carries() {
			continue
		}
		p.Up = true
		spis = append(spis, c.in+"/"+c.out)
		ages = append(ages, c.installed)
	}
	p.SPIs = strings.Join(spis, ",")
	p.Received, p.Sent = count.sums()
	for _, age := range ages {
		if n, err := strconv.Atoi(age); err == nil {
			if at := time.Now().Add(-time.Duration(n) * time.Second).Truncate(time.Second); at.After(p.LastHandshake) {
				p.LastHandshake = at
			}
		}
	}
	return p
}

// maxTotals is how many peers have totals: those that are not connected lose theirs first. A tunnel that listens has as
// many as its authority has named.
const maxTotals = 256

// forgetTotals forgets the totals of peers that have no connection, if there are too many.
func (k *keeper) forgetTotals(sas []sa) {
	if len(sas) > 0 && len(k.totals) > maxTotals { // none: charon has not answered
		maps.DeleteFunc(k.totals, func(who string, _ totals) bool {
			return !slices.ContainsFunc(sas, func(x sa) bool { return x.who == who })
		})
	}
}

// totals are the octets of each child that was seen: those of an ended one count on.
type totals map[string][2]uint64

// ended is the key of the children that are no longer kept apart.
const ended = ""

func (t totals) sums() (in, out uint64) {
	for _, x := range t {
		in, out = in+x[0], out+x[1]
	}
	const maxApart = 256 // a tunnel that rekeys each hour makes 24 a day
	if len(t) > maxApart {
		newest := 0
		for id := range t {
			if n, err := strconv.Atoi(id); err == nil {
				newest = max(newest, n)
			}
		}
		old := t[ended]
		for id, x := range t {
			if n, err := strconv.Atoi(id); err == nil && n < newest-maxApart/2 {
				old = [2]uint64{old[0] + x[0], old[1] + x[1]}
				delete(t, id)
			}
		}
		t[ended] = old
	}
	return in, out
}

// assignedDNS are the servers that charon's plugin resolve has written.
func assignedDNS(path string) []netip.Addr {
	f, err := openOwn(path, os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []netip.Addr
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var word, server string
		if n, _ := fmt.Sscan(lines.Text(), &word, &server); n < 2 || word != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(server); err == nil {
			out = append(out, a)
		}
	}
	return out
}
