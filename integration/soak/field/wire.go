package field

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/integration/soak/model"
)

// segment is the network of one provider: a switch between the machines' links and the provider's router, a tap
// device. Each frame of a machine passes the referee, and what the faults of its port let through goes on.
type segment struct {
	number  int
	watch   func(node, segment int, frame []byte)
	capture capture

	mu    sync.Mutex    // of all below
	ports map[int]*port // by node; 0 is the router
	where map[[6]byte]int
	drawn *rand.Rand
}

// port is where a machine, or the router, is connected.
type port struct {
	write func(frame []byte) error
	down  bool
	loss  float64
	block netip.Addr // packets to and from it are lost, if valid
	full  int        // frames that it did not take, or that others did not take from it
}

func newSegment(number int, seed uint64, watch func(node, segment int, frame []byte)) *segment {
	return &segment{number: number, watch: watch, ports: map[int]*port{}, where: map[[6]byte]int{},
		drawn: rand.New(rand.NewPCG(seed, uint64(number)))} // #nosec G115 G404 -- it must repeat
}

// connectRouter connects the provider's router.
func (s *segment) connectRouter(tap *os.File) {
	s.mu.Lock()
	s.ports[0] = &port{write: func(frame []byte) error { _, err := tap.Write(frame); return err }}
	s.mu.Unlock()
	go s.carry(0, func(frame []byte) (int, error) { return tap.Read(frame) })
}

// connect connects a machine's link; it stays connected while the machine boots again.
func (s *segment) connect(m *machine) error {
	at := &net.UnixAddr{Name: m.wirePath(s.number), Net: "unixgram"}
	conn, err := net.ListenUnixgram("unixgram", at)
	if err != nil {
		return fmt.Errorf("connect node %d: %w", m.node, err)
	}
	_ = conn.SetReadBuffer(1 << 20)
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	to := &unix.SockaddrUnix{Name: m.guestPath(s.number)}
	// A machine that takes nothing loses frames: waiting for it would hold up the others.
	write := func(frame []byte) (err error) {
		return errors.Join(raw.Write(func(fd uintptr) bool {
			err = unix.Sendto(int(fd), frame, unix.MSG_DONTWAIT, to)
			return true
		}), err)
	}
	s.mu.Lock()
	s.ports[m.node] = &port{write: write}
	s.mu.Unlock()
	go s.carry(m.node, func(frame []byte) (int, error) { return conn.Read(frame) })
	return nil
}

// carry passes on what a port sends, until its end is closed.
func (s *segment) carry(from int, read func([]byte) (int, error)) {
	frame := make([]byte, 1<<16)
	for {
		n, err := read(frame)
		if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil || n < 14 {
			continue
		}
		s.capture.add(time.Now(), frame[:n])
		if from != 0 {
			s.watch(from, s.number, frame[:n])
		}
		s.forward(from, frame[:n])
	}
}

// forward sends a frame to the port where its destination was seen, or to all. A machine that is not there, or has no
// room, loses it, as on any network.
func (s *segment) forward(from int, frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loses(s.ports[from], frame) {
		return
	}
	s.where[[6]byte(frame[6:12])] = from
	if len(s.where) > 1<<12 { // a hostile sender of many addresses
		clear(s.where)
	}
	to, known := s.where[[6]byte(frame[:6])]
	for number, p := range s.ports {
		if number != from && (!known || number == to || frame[0]&1 == 1) && !s.loses(p, frame) {
			if p.write(frame) != nil {
				p.full++
				s.ports[from].full++
			}
		}
	}
}

// dropped returns how many frames from or to a node the segment could not pass on.
func (s *segment) dropped(node int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ports[node].full
}

func (s *segment) loses(p *port, frame []byte) bool {
	if p.down || p.loss > 0 && s.drawn.Float64() < p.loss {
		return true
	}
	if !p.block.IsValid() || len(frame) < 34 || binary.BigEndian.Uint16(frame[12:]) != 0x0800 {
		return false
	}
	a := p.block.As4()
	return [4]byte(frame[26:30]) == a || [4]byte(frame[30:34]) == a
}

// set changes the faults of a node's port.
func (s *segment) set(node int, change func(*port)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.ports[node])
}

// heal ends all faults.
func (s *segment) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports {
		p.down, p.loss, p.block = false, 0, netip.Addr{}
	}
}

// leak says what is wrong with a frame that a node has sent to its provider, or "". What apps send never appears there
// under an address of theirs, of any layer, and neither do tags of VLANs: no uplink has one.
func leak(frame []byte, node, segment int) string {
	if mac := net.HardwareAddr(frame[6:12]); mac.String() != nicMAC(node, segment) {
		return fmt.Sprintf("a frame from %v", mac)
	}
	var src, dst netip.Addr
	var protocol byte
	switch kind := binary.BigEndian.Uint16(frame[12:]); {
	case kind == unix.ETH_P_8021Q || kind == unix.ETH_P_8021AD:
		return "a frame with the tag of a VLAN"
	case kind == unix.ETH_P_IP && len(frame) >= 34:
		src, dst = netip.AddrFrom4([4]byte(frame[26:30])), netip.AddrFrom4([4]byte(frame[30:34]))
		protocol = frame[23]
	case kind == unix.ETH_P_IPV6 && len(frame) >= 54:
		src, dst = netip.AddrFrom16([16]byte(frame[22:38])), netip.AddrFrom16([16]byte(frame[38:54]))
		protocol = frame[20]
	default:
		return ""
	}
	own := netip.MustParseAddr(model.Uplink(node, segment))
	other := netip.MustParseAddr(model.Uplink(node, 1-segment))
	switch {
	case src == own || src == other || src.IsUnspecified() || segment == 1 && inProvider(src, segment):
		return ""
	case src.Is6() && src.IsLinkLocalUnicast(): // no provider has other IPv6
		return ""
	}
	return fmt.Sprintf("a packet from %v to %v, protocol %d", src, dst, protocol)
}

// inProvider tells whether an address is one that a provider assigns.
func inProvider(a netip.Addr, segment int) bool {
	return netip.MustParsePrefix(model.Segments[segment] + ".0/24").Contains(a)
}
