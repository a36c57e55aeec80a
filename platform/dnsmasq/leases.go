package dnsmasq

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// lease is one line of dnsmasq's lease file: "expiry mac address name client-id".
type lease struct {
	mac, addr string
	client    string // hexadecimal with colons, "*" for none
	line      string
}

// readLeases parses a lease file. It leaves out lines that are not an IPv4 lease of an Ethernet client.
func readLeases(text string) []lease {
	var ls []lease
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) != 5 {
			continue
		}
		if a, err := netip.ParseAddr(f[2]); err != nil || !a.Is4() {
			continue
		}
		if hw, err := net.ParseMAC(f[1]); err != nil || len(hw) != 6 {
			continue
		}
		ls = append(ls, lease{mac: strings.ToLower(f[1]), addr: f[2], client: f[4], line: line})
	}
	return ls
}

// HeldLeases returns the leases in a lease file that are not over by its own account; none if there is no file. It may
// miss some while the server writes the file.
func HeldLeases(path string) ([]netstate.HeldLease, error) {
	text, err := leaseText(path)
	if err != nil {
		return nil, err
	}
	var out []netstate.HeldLease
	for _, l := range readLeases(text) {
		held := netstate.HeldLease{MAC: l.mac}
		held.Address, _ = netip.ParseAddr(l.addr)
		end, _, _ := strings.Cut(l.line, " ")
		switch s, err := strconv.ParseInt(end, 10, 64); {
		case err != nil:
			continue
		case s > 0: // 0 is a lease without an end
			held.Until = time.Unix(s, 0)
		}
		out = append(out, held)
	}
	return out, nil
}

// unreservedLeases returns the leases whose address is not reserved for their client.
func unreservedLeases(ls []lease, reserved map[string]string) []lease {
	return slices.DeleteFunc(ls, func(l lease) bool { return reserved[l.addr] == l.mac })
}

func leaseText(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read leases: %w", err)
	}
	return string(b), nil
}

// pruneLeases removes stale leases from the file of a helper that is not running: a helper reads the file only at its
// start.
func pruneLeases(folder string, w *netstate.Leases) error {
	if w == nil {
		return nil
	}
	path := filepath.Join(folder, w.File)
	text, err := leaseText(path)
	if err != nil {
		return err
	}
	old := unreservedLeases(readLeases(text), w.Reserved)
	if len(old) == 0 {
		return nil
	}
	for _, l := range old {
		text = strings.Replace(text, l.line+"\n", "", 1)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return fmt.Errorf("write leases: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write leases: %w", err)
	}
	return nil
}

// dropLeases makes a running helper drop stale leases with a DHCPRELEASE for each (RFC 2131 §4.4.6), as the client
// would. It returns once the lease file has none, and repeats lost datagrams.
//
// dnsmasq truncates the file and then writes it, in a single thread. So a text that is the same before and after
// dnsmasq has answered a query is complete.
func (h *Helpers) dropLeases(ctx context.Context, id proc.Ident, p netstate.Process) error {
	w := p.Leases
	if w == nil {
		return nil
	}
	path := filepath.Join(h.folder(p.Name), w.File)
	for {
		before, err := leaseText(path)
		if err != nil {
			return err
		}
		if err := h.await(ctx, p.Name, p.Probe, h.bridgeOf(p), id); err != nil {
			return err
		}
		text, err := leaseText(path)
		if err != nil {
			return err
		}
		old := unreservedLeases(readLeases(text), w.Reserved)
		if len(old) == 0 && text == before {
			return nil
		}
		for _, l := range old {
			if err := h.release(ctx, w, l); err != nil {
				return fmt.Errorf("release %s of %s: %w", l.addr, l.mac, err)
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("leases of %d clients are still there: %w", len(old), context.Cause(ctx))
		}
	}
}

// release sends one DHCPRELEASE to the helper from the node itself. The socket is bound to the helper's link, so that
// the kernel reports that link as the incoming one.
func (h *Helpers) release(ctx context.Context, w *netstate.Leases, l lease) error {
	msg, err := releaseMessage(w.Server, l)
	if err != nil {
		return err
	}
	return proc.In(h.netns, func() error {
		conn, err := dialServer(ctx, w)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write(msg)
		return err
	})
}

// dialServer opens a socket to the helper's DHCP server, bound to its link. The calling thread is in the helper's
// namespace.
func dialServer(ctx context.Context, w *netstate.Leases) (net.Conn, error) {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if cerr := c.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), w.Link) }); cerr != nil {
			return cerr
		}
		return err
	}}
	return d.DialContext(ctx, "udp4", net.JoinHostPort(w.Server, "67"))
}

// Numbers of BOOTP and DHCP (RFC 951, RFC 2131 §2, RFC 2132).
const (
	bootRequest    = 1
	bootReply      = 2
	hwEthernet     = 1
	maxDHCP        = 1500
	offXid         = 4
	offCiaddr      = 12
	offChaddr      = 28
	offOptions     = 236
	minBootp       = 300
	optPad         = 0
	optHostname    = 12
	optMessageType = 53
	optServer      = 54
	optParameters  = 55
	optClient      = 61
	optEnd         = 255
	dhcpAck        = 5
	dhcpRelease    = 7
	dhcpInform     = 8
)

var dhcpMagic = []byte{99, 130, 83, 99}

// request returns the start of a message from a client that has an address, up to the options.
func request(mac net.HardwareAddr, addr netip.Addr) []byte {
	m := make([]byte, offOptions, minBootp)
	m[0], m[1], m[2] = bootRequest, hwEthernet, byte(len(mac))
	copy(m[offCiaddr:], addr.AsSlice())
	copy(m[offChaddr:], mac)
	return append(m, dhcpMagic...)
}

// releaseMessage returns the DHCPRELEASE of a lease, as its client would send it.
func releaseMessage(server string, l lease) ([]byte, error) {
	mac, err := net.ParseMAC(l.mac)
	if err != nil {
		return nil, err
	}
	to, err := netip.ParseAddr(server)
	if err != nil || !to.Is4() {
		return nil, fmt.Errorf("server address %q is not IPv4", server)
	}
	addr, err := netip.ParseAddr(l.addr)
	if err != nil {
		return nil, err
	}
	m := append(request(mac, addr), optMessageType, 1, dhcpRelease, optServer, 4)
	m = append(m, to.AsSlice()...)
	if l.client != "*" {
		id, err := hex.DecodeString(strings.ReplaceAll(l.client, ":", ""))
		if err != nil || len(id) > 255 {
			return nil, fmt.Errorf("client id %q", l.client)
		}
		m = append(append(m, optClient, byte(len(id))), id...)
	}
	m = append(m, optEnd)
	return append(m, make([]byte, max(0, minBootp-len(m)))...), nil
}
