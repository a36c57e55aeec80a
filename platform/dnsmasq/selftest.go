package dnsmasq

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// testTime bounds the self-test of one helper. A helper reads a new reservation within milliseconds, so the test
// repeats the query of an unknown client until then.
const testTime = 2 * time.Second

// Test checks a running helper and returns each failure: its DNS must answer with the gateway's name and address, and
// its DHCP server must answer each client with the name of its reservation. Like dropLeases, it sends from the node
// itself. It sends a DHCPINFORM (RFC 2131 §4.3.5), which creates no lease and sends nothing to the apps.
func (h *Helpers) Test(ctx context.Context, p netstate.Process) []netstate.OpFailure {
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	fail := func(id netstate.ID, format string, args ...any) netstate.OpFailure {
		return netstate.OpFailure{ID: id, Observe: true, Err: fmt.Sprintf("self-test: "+format, args...)}
	}
	if !h.hasJustAnswered(p.Name, p.Probe) { // to the observation before this test
		err := again(ctx, func() error { return answers(ctx, h.netns, p.Probe, h.bridgeOf(p)) })
		if err != nil {
			return []netstate.OpFailure{fail(p.ID(), "DNS of the gateway: %v", err)}
		}
	}
	if p.Leases == nil {
		return nil
	}
	if len(p.Leases.Clients) == 0 {
		return nil
	}
	var conn net.Conn
	if err := proc.In(h.netns, func() (err error) { conn, err = dialServer(ctx, p.Leases); return err }); err != nil {
		return []netstate.OpFailure{fail(p.ID(), "DHCP of the gateway: %v", err)}
	}
	defer conn.Close()
	var fs []netstate.OpFailure
	for _, c := range p.Leases.Clients {
		err := again(ctx, func() error { return askParameters(conn, p.Leases, c) })
		var unknown unknownClient
		switch {
		case errors.As(err, &unknown):
			fs = append(fs, fail(c.Of, "DHCP of the gateway: %v", err))
		case err != nil: // no answer for one client is none for any
			return append(fs, fail(p.ID(), "DHCP of the gateway: %v", err))
		}
	}
	return fs
}

// again calls ask until it succeeds, and returns the last error when ctx has ended.
func again(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// unknownClient is the error for a client that the server answers, but not by its reservation.
type unknownClient struct{ mac, want, got string }

func (u unknownClient) Error() string {
	return fmt.Sprintf("%s is answered with the name %q: must be %q", u.mac, u.got, u.want)
}

// askParameters sends one DHCPINFORM and checks the parameters for a client.
func askParameters(conn net.Conn, w *netstate.Leases, c netstate.Client) error {
	id := rand.Uint32()
	msg, err := informMessage(w.Server, c.MAC, id)
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(tryTime)); err != nil {
		return err
	}
	if _, err := conn.Write(msg); err != nil {
		return err
	}
	answer := make([]byte, maxDHCP)
	for {
		n, err := conn.Read(answer)
		if err != nil {
			return fmt.Errorf("%s does not answer on %s: %w", w.Server, w.Link, err)
		}
		name, ok := parseInformAnswer(answer[:n], id)
		if !ok {
			continue // the answer to an abandoned query
		}
		if c.Name != "" && name != c.Name {
			return unknownClient{c.MAC, c.Name, name}
		}
		return nil
	}
}

// informMessage returns the DHCPINFORM of a client that requests its host name. Its client address is the server's
// own, so that the answer comes back to this node.
func informMessage(server, mac string, id uint32) ([]byte, error) {
	hw, err := net.ParseMAC(mac)
	if err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddr(server)
	if err != nil || !addr.Is4() {
		return nil, fmt.Errorf("server address %q is not IPv4", server)
	}
	m := request(hw, addr)
	binary.BigEndian.PutUint32(m[offXid:], id)
	m = append(m, optMessageType, 1, dhcpInform, optParameters, 1, optHostname, optEnd)
	return append(m, make([]byte, max(0, minBootp-len(m)))...), nil
}

// parseInformAnswer returns the host name in the answer to request id; ok is false if m is no such answer.
func parseInformAnswer(m []byte, id uint32) (name string, ok bool) {
	if len(m) < offOptions+len(dhcpMagic) || m[0] != bootReply || binary.BigEndian.Uint32(m[offXid:]) != id ||
		!bytes.Equal(m[offOptions:offOptions+len(dhcpMagic)], dhcpMagic) {
		return "", false
	}
	for o := m[offOptions+len(dhcpMagic):]; len(o) > 0 && o[0] != optEnd; {
		if o[0] == optPad {
			o = o[1:]
			continue
		}
		if len(o) < 2 || len(o) < 2+int(o[1]) {
			return "", false
		}
		value := o[2 : 2+int(o[1])]
		switch o[0] {
		case optHostname:
			name = string(value)
		case optMessageType:
			ok = len(value) == 1 && value[0] == dhcpAck
		}
		o = o[2+int(o[1]):]
	}
	return name, ok
}
