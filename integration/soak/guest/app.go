package guest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/integration/soak/model"
)

// An app sends beacons to each of its targets, answers those that come to its ports, and tells what
// it sees on all of its links, also what is not for it.
const (
	BeaconMagic = "ESSOAK "
	echoMagic   = "ESECHO "
	TellEvery   = 2 * time.Second
)

// orders are what an app is told, a line of JSON each.
type Orders struct {
	Targets []Target
	Every   time.Duration // between two beacons to one target
	Attack  string        `json:",omitempty"` // what a hostile app does; "" for nothing
}

type Target struct {
	To   string // the endpoint
	Addr netip.AddrPort
}

// Sighting is how many beacons of one sender to one port an app has seen.
type Sighting struct {
	From string
	Port int
	N    int
}

// told is what an app tells, a line of JSON each.
type Told struct {
	Addr   string // its address, "" without
	Seen   []Sighting
	Sent   map[string]int // by target and port
	Echoed map[string]int
	Err    string `json:",omitempty"`
}

type beaconer struct {
	name   string
	mu     sync.Mutex // of all below
	orders Orders
	seen   map[Sighting]int
	sent   map[string]int
	echoed map[string]int
	err    string
}

// appMain is one app, in its namespace. link is the one that has an address, or "": by DHCP, but for model.ClusterApp.
func appMain(name, link string) error {
	b := &beaconer{name: name, seen: map[Sighting]int{}, sent: map[string]int{}, echoed: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if e, err := model.ParseEndpoint(name); link != "" && (err != nil || e.App != model.ClusterApp) {
		go keepLease(ctx, link)
	}
	go b.watch()
	for _, port := range model.Beacons {
		go b.serve(port)
	}
	go b.send()
	go b.tell(link)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var o Orders
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return err
		}
		b.mu.Lock()
		b.orders = o
		b.mu.Unlock()
		if o.Attack != "" {
			go attack(o.Attack, link)
		}
	}
	return lines.Err()
}

// keepLease runs a DHCP client on a link for ever: the link comes, goes and moves to other networks.
func keepLease(ctx context.Context, link string) {
	for ctx.Err() == nil {
		if _, err := net.InterfaceByName(link); err == nil {
			_ = exec.CommandContext(ctx, "ip", "link", "set", link, "up").Run()
			short, cancel := context.WithTimeout(ctx, 30*time.Second)
			// It ends with its first lease: the next one may be of another network, and asks soon.
			_ = exec.CommandContext(short, "udhcpc", "-i", link, "-f", "-q", "-n", "-t", "3", "-T", "2", "-A", "1",
				"-O", "staticroutes", "-O", "mtu", "-s", Dir+"/lease.sh").Run()
			cancel()
		}
		waitToAsk(ctx, func() string { return stateOf(link) })
	}
}

// How soon an app asks for an address again: each client and its script are some ten programs.
const (
	askAgain = 15 * time.Second
	askSoon  = 3 * time.Second // without an address
)

// waitToAsk waits until an address may be another one: its link has changed, or time has passed.
func waitToAsk(ctx context.Context, state func() string) {
	was, begin := state(), time.Now()
	for ctx.Err() == nil {
		time.Sleep(time.Second)
		took := time.Since(begin)
		if took >= askAgain || took >= askSoon && (was == "" || state() != was) {
			return
		}
	}
}

// stateOf tells which link of a name there is, how it is and what address it has; "" if none has an address.
func stateOf(link string) string {
	l, err := net.InterfaceByName(link)
	addr := address(link)
	if err != nil || addr == "" {
		return ""
	}
	return fmt.Sprint(l.Index, l.Flags, l.HardwareAddr, addr)
}

func (b *beaconer) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err.Error()
}

// watch counts the beacons in all frames that arrive on any link of the namespace.
func (b *beaconer) watch() {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
	if err != nil {
		b.fail(err)
		return
	}
	packet := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(fd, packet, 0)
		if err != nil {
			if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENETDOWN) {
				continue
			}
			b.fail(err)
			return
		}
		at, ok := from.(*unix.SockaddrLinklayer)
		if !ok || at.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if u, ok := ParseUDP(packet[:n]); ok && u.Beacon() != "" {
			b.mu.Lock()
			b.seen[Sighting{From: u.Beacon(), Port: int(u.Dst.Port())}]++
			b.mu.Unlock()
		}
	}
}

func htons(v uint16) uint16 {
	var two [2]byte
	binary.BigEndian.PutUint16(two[:], v)
	return binary.NativeEndian.Uint16(two[:])
}

// serve answers the beacons to a port.
func (b *beaconer) serve(port int) {
	at := &net.UDPAddr{Port: port}
	if b.name == model.Outside.String() {
		at.IP = net.ParseIP(model.ServerAddr) // or answers come from the address of a gateway
	}
	s, err := net.ListenUDP("udp4", at)
	if err != nil {
		b.fail(err)
		return
	}
	packet := make([]byte, 2048)
	for {
		n, from, err := s.ReadFromUDPAddrPort(packet)
		if err != nil {
			continue
		}
		if text, ok := strings.CutPrefix(string(packet[:n]), BeaconMagic); ok {
			_, _ = s.WriteToUDPAddrPort([]byte(echoMagic+text), from) // the sender counts
		}
	}
}

// send sends beacons, and counts the answers.
func (b *beaconer) send() {
	s, err := net.ListenUDP("udp4", nil)
	if err != nil {
		b.fail(err)
		return
	}
	go func() {
		packet := make([]byte, 2048)
		for {
			n, _, err := s.ReadFromUDPAddrPort(packet)
			if err != nil {
				continue
			}
			if f := strings.Fields(string(packet[:n])); len(f) == 4 && f[0]+" " == echoMagic {
				b.mu.Lock()
				b.echoed[f[2]]++
				b.mu.Unlock()
			}
		}
	}()
	for number := 0; ; number++ {
		b.mu.Lock()
		o := b.orders
		b.mu.Unlock()
		for _, t := range o.Targets {
			b.beacon(s, t, number)
		}
		time.Sleep(cmp.Or(o.Every, 100*time.Millisecond)) // 0 before the first orders
	}
}

// beacon sends one. One that the kernel refuses, as without a link or a route, is sent and will not be answered.
func (b *beaconer) beacon(s *net.UDPConn, t Target, number int) {
	key := fmt.Sprintf("%s:%d", t.To, t.Addr.Port())
	_, _ = s.WriteToUDPAddrPort(fmt.Appendf(nil, "%s%s %s %d", BeaconMagic, b.name, key, number), t.Addr)
	b.mu.Lock()
	b.sent[key]++
	b.mu.Unlock()
}

// tell prints what is new, for ever.
func (b *beaconer) tell(link string) {
	for out := json.NewEncoder(os.Stdout); ; time.Sleep(TellEvery) {
		b.mu.Lock()
		t := Told{Addr: address(link), Sent: b.sent, Echoed: b.echoed, Err: b.err}
		for s, n := range b.seen {
			s.N = n
			t.Seen = append(t.Seen, s)
		}
		b.sent, b.echoed, b.seen = map[string]int{}, map[string]int{}, map[Sighting]int{}
		b.mu.Unlock()
		if out.Encode(t) != nil {
			os.Exit(1)
		}
	}
}

// address returns the IPv4 address of a link, or "".
func address(link string) string {
	i, err := net.InterfaceByName(link)
	if err != nil {
		return ""
	}
	list, err := i.Addrs()
	if err != nil {
		return ""
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			return p.Addr().String()
		}
	}
	return ""
}
