package wireguard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"edgespan/platform/vpn/wireguard/helper"
)

// device is the interface of one link: the kernel's, or a helper's.
type device interface {
	get(ctx context.Context) (config, error)
	set(ctx context.Context, c change) error
	// notes returns what a helper has noticed, which the kernel does not tell.
	notes(ctx context.Context) (notes, error)
}

// notes are what a helper has noticed of peers that it can't authenticate.
type notes struct {
	badInitiation, badResponse map[netip.Addr]time.Time // the last one from an address
}

// socket is the folder of a helper, which answers the configuration protocol there
// (https://www.wireguard.com/xplatform/#configuration-protocol).
type socket string

// ask sends a request that ends with an empty line and returns the lines of the answer, which ends with errno=0.
func (s socket) ask(ctx context.Context, request string) ([]string, error) {
	folder, err := os.Open(string(s)) // through its descriptor: a socket's path has at most 107 bytes
	if err != nil {
		return nil, fmt.Errorf("ask the tunnel's process: %w", err)
	}
	defer folder.Close()
	path := filepath.Join("/proc/self/fd", strconv.Itoa(int(folder.Fd())), helper.SocketName)
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("ask the tunnel's process: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	lines, err := exchange(conn, request)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("ask the tunnel's process: %w", err)
	}
	return lines, nil
}

func exchange(conn io.ReadWriter, request string) ([]string, error) {
	if _, err := io.WriteString(conn, request); err != nil {
		return nil, err
	}
	var lines []string
	for in := bufio.NewScanner(conn); ; {
		if !in.Scan() {
			return nil, errors.Join(in.Err(), io.ErrUnexpectedEOF)
		}
		code, last := strings.CutPrefix(in.Text(), "errno=")
		switch {
		case !last:
			lines = append(lines, in.Text())
		case code == "0":
			return lines, nil
		default:
			return nil, fmt.Errorf("it refuses the configuration (%s)", errnoText(code))
		}
	}
}

// errnoText is the meaning of an error number of the protocol, which are those of Linux, negative.
func errnoText(code string) string {
	switch code {
	case "-98":
		return "the UDP port is in use"
	case "-5":
		return "input/output error"
	}
	return "error " + code
}

func (s socket) get(ctx context.Context) (config, error) {
	lines, err := s.ask(ctx, "get=1\n\n")
	if err != nil {
		return config{}, err
	}
	c, err := parseConfig(lines)
	if err != nil {
		return config{}, fmt.Errorf("answer of the tunnel's process: %w", err)
	}
	return c, nil
}

func parseConfig(lines []string) (config, error) {
	c := config{peers: map[key]peer{}}
	var public key
	var one *peer
	end := func() {
		if one != nil {
			one.allowed = sorted(one.allowed)
			c.peers[public] = *one
		}
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		var err error
		switch {
		case name == "public_key":
			end()
			one = &peer{}
			public, err = parseHexKey(value)
		case one != nil:
			err = one.parse(name, value)
		case name == "private_key":
			c.private, err = parseHexKey(value)
		case name == "listen_port":
			c.port, err = strconv.Atoi(value)
		case name == "fwmark":
			var mark uint64
			mark, err = strconv.ParseUint(value, 10, 32)
			c.mark = uint32(mark)
		}
		if err != nil {
			return config{}, fmt.Errorf("%s: %w", name, err) // without its value: it may be a secret
		}
	}
	end()
	return c, nil
}

func (p *peer) parse(name, value string) error {
	number := func() (n uint64, err error) {
		if n, err = strconv.ParseUint(value, 10, 63); err != nil {
			err = errors.New("must be a number")
		}
		return n, err
	}
	var n uint64
	var err error
	switch name {
	case "preshared_key":
		p.preshared, err = parseHexKey(value)
	case "endpoint":
		p.endpoint, err = netip.ParseAddrPort(value)
	case "allowed_ip":
		var a netip.Prefix
		a, err = netip.ParsePrefix(value)
		p.allowed = append(p.allowed, a)
	case "persistent_keepalive_interval":
		n, err = number()
		p.keepalive = int(n)
	case "last_handshake_time_sec":
		if n, err = number(); n != 0 {
			p.handshake = time.Unix(int64(n), 0)
		}
	case "last_handshake_time_nsec":
		if n, err = number(); n != 0 {
			p.handshake = p.handshake.Add(time.Duration(n))
		}
	case "rx_bytes":
		p.received, err = number()
	case "tx_bytes":
		p.sent, err = number()
	}
	return err
}

func (s socket) set(ctx context.Context, c change) error {
	_, err := s.ask(ctx, "set=1\n"+c.text()+"\n")
	return err
}

// text is a change in the words of the protocol.
func (c change) text() string {
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%s=%v\n", name, value) }
	if c.private != nil {
		line("private_key", c.private.hex())
	}
	if c.mark != nil { // before the port, whose new socket has the mark from its beginning
		line("fwmark", *c.mark)
	}
	if c.port != nil {
		line("listen_port", *c.port)
	}
	for _, p := range c.peers {
		line("public_key", p.public.hex())
		if p.remove {
			line("remove", true)
			continue
		}
		if p.preshared != nil {
			line("preshared_key", p.preshared.hex())
		}
		if p.endpoint.IsValid() {
			line("endpoint", p.endpoint)
		}
		if p.keepalive != nil {
			line("persistent_keepalive_interval", *p.keepalive)
		}
		for _, a := range p.add {
			line("allowed_ip", a)
		}
		for _, a := range p.drop {
			line("allowed_ip", "-"+a.String())
		}
	}
	return b.String()
}

// notes asks a helper for what it has noticed: an extension of the protocol.
func (s socket) notes(ctx context.Context) (notes, error) {
	n := notes{badInitiation: map[netip.Addr]time.Time{}, badResponse: map[netip.Addr]time.Time{}}
	lines, err := s.ask(ctx, helper.NotesRequest+"\n\n")
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		var from string
		var at int64
		if _, err := fmt.Sscan(value, &from, &at); err != nil {
			continue // of a later release
		}
		addr, err := netip.ParseAddr(from)
		if err != nil {
			continue
		}
		switch name {
		case helper.BadInitiation:
			n.badInitiation[addr] = time.Unix(at, 0)
		case helper.BadResponse:
			n.badResponse[addr] = time.Unix(at, 0)
		}
	}
	return n, err
}
