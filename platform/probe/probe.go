// Package probe sends the probes of uplinks, each by one interface alone (Shoot), and ICMP echo requests to peers
// (Echo).
//
// It never decides which hosts to probe, how often, or what a missing reply means.
package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Types of requests and replies, by family.
const (
	echoRequest4, echoReply4 = 8, 0
	echoRequest6, echoReply6 = 128, 129
)

const (
	headLength = 8  // of an ICMP echo header
	wordLength = 16 // of the random word that follows it
)

// echo is an ICMP echo request (RFC 792, RFC 4443).
type echo []byte

// newEcho returns a request that no other process sends: its identifier, number and word are random.
func newEcho(ipv4 bool) (echo, error) {
	e := make(echo, headLength+wordLength)
	if _, err := rand.Read(e[4:]); err != nil {
		return nil, err
	}
	e[0] = echoRequest6 // the kernel adds its checksum
	if ipv4 {
		e[0] = echoRequest4
		binary.BigEndian.PutUint16(e[2:], checksum(e))
	}
	return e, nil
}

// reply returns the type of the reply.
func (e echo) reply() byte {
	if e[0] == echoRequest4 {
		return echoReply4
	}
	return echoReply6
}

// answeredBy reports whether b is the reply.
func (e echo) answeredBy(b []byte) bool {
	return len(b) >= len(e) && b[0] == e.reply() && b[1] == 0 && bytes.Equal(b[4:], e[4:])
}

// Echo sends one echo request from local to remote and returns the time until the reply. It waits until ctx ends; the
// error then wraps the context's.
func Echo(ctx context.Context, local, remote netip.Addr) (time.Duration, error) {
	network := "ip4:icmp"
	if remote.Is6() {
		network = "ip6:ipv6-icmp"
	}
	var lc net.ListenConfig
	conn, err := lc.ListenPacket(ctx, network, local.String())
	if err != nil {
		return 0, fmt.Errorf("ask %s from %s: %w", remote, local, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	asked, err := newEcho(remote.Is4())
	if err != nil {
		return 0, fmt.Errorf("ask %s: %w", remote, err)
	}
	began := time.Now()
	if _, err := conn.WriteTo(asked, &net.IPAddr{IP: remote.AsSlice(), Zone: remote.Zone()}); err != nil {
		return 0, fmt.Errorf("ask %s from %s: %w", remote, local, err)
	}
	got := make([]byte, 2048)
	for {
		n, from, err := conn.ReadFrom(got)
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return 0, fmt.Errorf("ask %s from %s: %w", remote, local, err)
		}
		ip, ok := from.(*net.IPAddr)
		if !ok || !asked.answeredBy(got[:n]) {
			continue
		}
		if a, ok := netip.AddrFromSlice(ip.IP); ok && a.Unmap() == remote.WithZone("") {
			return time.Since(began), nil
		}
	}
}

// checksum returns the checksum of RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
