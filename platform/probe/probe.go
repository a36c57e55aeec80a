// Package probe asks other hosts whether they answer, by ICMP echo (RFC 792, RFC 4443).
//
// It never decides what is asked, how often, or what silence means.
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

// What is asked and answered, by family.
const (
	echoRequest4, echoReply4 = 8, 0
	echoRequest6, echoReply6 = 128, 129
)

// headLength is that of an ICMP echo header; a word of our own follows it.
const headLength = 8

// Echo sends one echo request from local to remote and returns how long the answer took. It
// waits for it until ctx ends: the error wraps the context's then.
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
	if _, err := rand.Read(asked[4:]); err != nil { // identifier, number and word: nobody else has them
		return 0, fmt.Errorf("ask %s: %w", remote, err)
	}
	asked[0] = request
	if remote.Is4() { // of the other family the kernel does it
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

// checksum is that of RFC 1071.
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
