// Package probe sends ICMP echo requests to other hosts (RFC 792, RFC 4443).
//
// It never decides which hosts to probe, how often, or what a missing reply means.
package probe

import (
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

// headLength is the length of an ICMP echo header. A random word follows it.
const headLength = 8

// Echo sends one echo request from local to remote and returns the time until the reply. It waits until ctx ends; the
// error then wraps the context's.
func Echo(ctx context.Context, local, remote netip.Addr) (time.Duration, error) {
	network, request, reply := "ip4:icmp", byte(echoRequest4), byte(echoReply4)
	if remote.Is6() {
		network, request, reply = "ip6:ipv6-icmp", echoRequest6, echoReply6
	}
	var lc net.ListenConfig
	conn, err := lc.ListenPacket(ctx, network, local.String())
	if err != nil {
		return 0, fmt.Errorf("ask %s from %s: %w", remote, local, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	asked := make([]byte, headLength+16)
	if _, err := rand.Read(asked[4:]); err != nil { // identifier, number and word, which no other process sends
		return 0, fmt.Errorf("ask %s: %w", remote, err)
	}
	asked[0] = request
	if remote.Is4() { // for IPv6 the kernel does it
		binary.BigEndian.PutUint16(asked[2:], checksum(asked))
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
		ip, is := from.(*net.IPAddr)
		if !is || n < len(asked) || got[0] != reply || string(got[4:n]) != string(asked[4:]) {
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
