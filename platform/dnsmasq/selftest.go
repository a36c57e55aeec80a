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

// testTime bounds the self-test of one helper. A reservation that was just written is
// read by the helper within milliseconds, so a client that is not known yet is asked
// for again until then.
const testTime = 2 * time.Second

// Test asks a running helper what it promises, and names each promise that does not
// hold: its DNS answers with the gateway's own name and address, and its DHCP server
// answers each client with its reservation's name. It asks from the node itself, as
// dropLeases does, with a DHCPINFORM (RFC 2131 §4.3.5): that leases nothing and sends
// nothing to the apps.
func (h *Helpers) Test(ctx context.Context, p netstate.Process) []netstate.Failure {
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	fail := func(id netstate.ID, format string, args ...any) netstate.Failure {
		return netstate.Failure{ID: id, Observe: true, Err: fmt.Sprintf("self-test: "+format, args...)}
	}
	if err := again(ctx, func() error { return answers(ctx, h.netns, p.Probe) }); err != nil {
		return []netstate.Failure{fail(p.ID(), "DNS of the gateway: %v", err)}
	}
	if p.Leases == nil {
		return nil
	}
	if len(p.Leases.Clients) == 0 {
		return nil
	}
	var conn net.Conn
	if err := proc.In(h.netns, func() (err error) { conn, err = dialServer(ctx, p.Leases); return err }); err != nil {
		return []netstate.Failure{fail(p.ID(), "DHCP of the gateway: %v", err)}
	}
	defer conn.Close()
	var fs []netstate.Failure
	for _, c := range p.Leases.Clients {
		err := again(ctx, func() error { return inform(conn, p.Leases, c) })
		var unknown unknownClient
		switch {
		case errors.As(err, &unknown):
			fs = append(fs, fail(c.Of, "DHCP of the gateway: %v", err))
		case err != nil: // no answer for one is none for any
			return append(fs, fail(p.ID(), "DHCP of the gateway: %v", err))
		}
	}
	return fs
}

// again asks until there is no error, and says the last one when ctx has ended.
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

// unknownClient is the error of a client that the server answers, but not by its
// reservation.
type unknownClient struct{ mac, want, got string }

func (u unknownClient) Error() string {
	return fmt.Sprintf("%s is answered with the name %q: must be %q", u.mac, u.got, u.want)
}

// inform asks the DHCP server once for the parameters of a client.
func inform(conn net.Conn, w *netstate.Leases, c netstate.Client) error {
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
		name, ok := informed(answer[:n], id)
		if !ok {
			continue // the answer to a question that was given up
		}
		if c.Name != "" && name != c.Name {
			return unknownClient{c.MAC, c.Name, name}
		}
		return nil
	}
}

// informMessage is the DHCPINFORM of a client that asks for its host name. It names
// the server's own address as the client's, so that the answer comes to who asks.
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

// informed reads the host name out of the answer to request id; ok is false if it is
// no such answer.
func informed(m []byte, id uint32) (name string, ok bool) {
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
