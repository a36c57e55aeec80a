package scenario

import (
	"bytes"
	wire "encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/platform/lab"
)

// exits are the uplinks by which an app's packets leave the node: what each provider receives of a stream of packets,
// whatever the daemon says.
type exits struct {
	*world
	mu   sync.Mutex
	seen []exit
}

// exit is one packet that a provider has received.
type exit struct {
	at     time.Time
	app    byte
	seq    uint32
	uplink int
	from   netip.Addr // its source, as the provider sees it
}

// exitMark begins the payload of each packet of a stream; its app and its number follow.
const exitMark = "leaves the node:"

// exitPort is a port of the web server on which nothing listens.
const exitPort = 9

// watchExits makes app 1, in "web", send a packet to the web server at each interval, until the test ends. Each is a
// flow of its own: it takes the uplink that is in use when it is sent.
func (w *world) watchExits(uplinks int, every time.Duration) *exits {
	w.Helper()
	return w.watchExitsOf(uplinks, every, "web")
}

// watchExitsOf is watchExits for several apps, which are numbered from 1 in the order of their namespaces.
func (w *world) watchExitsOf(uplinks int, every time.Duration, namespaces ...string) *exits {
	w.Helper()
	e := &exits{world: w}
	for n := range uplinks {
		e.listen(n)
	}
	e.send(every, 0, namespaces...)
	return e
}

// send makes apps send packets that each are a flow of their own, until the test ends; "" is no app.
func (e *exits) send(every time.Duration, added byte, namespaces ...string) {
	e.Helper()
	for i, ns := range namespaces {
		if ns == "" {
			continue
		}
		stop, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- e.inside(ns, func() error { return sendExits(byte(i+1)|added, every, stop) }) }()
		e.Cleanup(func() {
			close(stop)
			if err := <-ended; err != nil {
				e.Errorf("send packets from %s: %v", ns, err)
			}
		})
	}
}

// knownFlow is added to the number of an app in the packets of one flow that never ends.
const knownFlow = 0x80

// sixFlows is added to the number of an app in its packets of IPv6.
const sixFlows = 0x40

// exitTo returns where the packets of an app go: the web server of their family.
func exitTo(app byte) (family int, to unix.Sockaddr) {
	if app&sixFlows != 0 {
		return unix.AF_INET6, &unix.SockaddrInet6{Port: exitPort, Addr: netip.MustParseAddr(isp6Web).As16()}
	}
	return unix.AF_INET, &unix.SockaddrInet4{Port: exitPort, Addr: netip.MustParseAddr(lab.WebAddr).As4()}
}

// sendKnownFlows makes the apps that are watched send such packets, too, until the test ends: app i+1 in the i-th
// namespace, with what is added to their numbers.
func (e *exits) sendKnownFlows(every time.Duration, added byte, namespaces ...string) {
	e.Helper()
	family, to := exitTo(added)
	for i, ns := range namespaces {
		if ns == "" {
			continue
		}
		var fd int
		if err := e.inside(ns, func() (err error) {
			fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			return err
		}); err != nil {
			e.Fatal(err)
		}
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			tick := time.NewTicker(every)
			defer tick.Stop()
			for seq := uint32(1); ; seq++ {
				packet := append([]byte(exitMark), byte(i+1)|knownFlow|added)
				_ = unix.Sendto(fd, wire.BigEndian.AppendUint32(packet, seq), 0, to)
				select {
				case <-tick.C:
				case <-stop:
					_ = unix.Close(fd)
					return
				}
			}
		}()
		e.Cleanup(func() { close(stop); <-ended })
	}
}

func sendExits(app byte, every time.Duration, stop <-chan struct{}) error {
	family, to := exitTo(app)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for seq := uint32(1); ; seq++ {
		fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		// Without a route, the packet does not leave.
		_ = unix.Sendto(fd, wire.BigEndian.AppendUint32(append([]byte(exitMark), app), seq), 0, to)
		_ = unix.Close(fd)
		select {
		case <-tick.C:
		case <-stop:
			return nil
		}
	}
}

// listen records what the provider of an uplink receives, before its faults drop it, until the test ends.
func (e *exits) listen(n int) {
	e.Helper()
	p := e.Provider(n)
	var f *os.File
	err := e.inside(p.Short, func() error {
		link, err := net.InterfaceByName(p.Peer)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		f = os.NewFile(uintptr(fd), p.Peer)
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: link.Index})
	})
	if err != nil {
		e.Fatalf("listen on %s in %s: %v", p.Peer, p.Short, err)
	}
	var reader sync.WaitGroup
	reader.Go(func() { e.read(f, n) })
	e.Cleanup(func() { _ = f.Close(); reader.Wait() })
}

func (e *exits) read(f *os.File, uplink int) {
	buf := make([]byte, 2048)
	for {
		n, err := f.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil { // ENETDOWN, once for each time that the link goes down
			continue
		}
		if x, own := exitOf(buf[:n]); own {
			x.uplink = uplink
			e.mu.Lock()
			x.at = time.Now() // in the order of e.seen
			e.seen = append(e.seen, x)
			e.mu.Unlock()
		}
	}
}

// exitOf reads a frame of the stream. The packet has no options: 14 bytes of Ethernet, 20 of IP, or 40 of IPv6, and 8 of
// UDP. An ICMP error quotes it further behind.
func exitOf(frame []byte) (x exit, own bool) {
	if len(frame) < 62 {
		return x, false
	}
	text, from := frame[42:], netip.AddrFrom4([4]byte(frame[26:30]))
	if wire.BigEndian.Uint16(frame[12:]) == unix.ETH_P_IPV6 {
		text, from = frame[62:], netip.AddrFrom16([16]byte(frame[22:38]))
	}
	if text, own = bytes.CutPrefix(text, []byte(exitMark)); !own || len(text) != 5 {
		return x, false
	}
	return exit{app: text[0], seq: wire.BigEndian.Uint32(text[1:]), from: from}, true
}

// since returns the packets that were received after a moment.
func (e *exits) since(t time.Time) []exit {
	e.mu.Lock()
	defer e.mu.Unlock()
	i, _ := slices.BinarySearchFunc(e.seen, t, func(x exit, t time.Time) int { return x.at.Compare(t) })
	return slices.Clone(e.seen[i:])
}

// of returns the packets of an app that were received after a moment.
func (e *exits) of(app byte, t time.Time) []exit {
	return slices.DeleteFunc(e.since(t), func(x exit) bool { return x.app != app })
}

// now waits until the last 20 packets of app 1 have left by the same uplink, and returns it.
func (e *exits) now() int { e.Helper(); return e.nowOf(1) }

func (e *exits) nowOf(app byte) int {
	e.Helper()
	began, uplink := time.Now(), 0
	e.eventually("packets by one uplink", func() bool {
		got := e.of(app, began)
		got = got[max(0, len(got)-20):]
		if len(got) < 20 {
			return false
		}
		uplink = got[0].uplink
		return !slices.ContainsFunc(got, func(x exit) bool { return x.uplink != uplink })
	})
	return uplink
}

// leaves waits until packets of app 1 leave by another uplink than old, and returns when the first one did, after t.
func (e *exits) leaves(old int, t time.Time, within time.Duration) time.Duration {
	e.Helper()
	return e.leavesOf(1, old, t, within)
}

func (e *exits) leavesOf(app byte, old int, t time.Time, within time.Duration) time.Duration {
	e.Helper()
	deadline, tick := time.Now().Add(within), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for ; time.Now().Before(deadline); <-tick.C {
		for _, x := range e.of(app, t) {
			if x.uplink != old {
				return x.at.Sub(t)
			}
		}
	}
	e.Fatalf("no packet left by another uplink than %s within %v:\n%s", e.Provider(old).Dev, within,
		e.cli("explain", "ni/"+ni(int(app))))
	return 0
}

// switches returns the changes of app 1's uplink since a moment, by the packets in the order in which it sent them.
func (e *exits) switches(t time.Time) []string { return e.switchesOf(1, t) }

func (e *exits) switchesOf(app byte, t time.Time) []string {
	got := e.of(app, t)
	slices.SortFunc(got, func(a, b exit) int { return int(a.seq) - int(b.seq) })
	var out []string
	for i, x := range got {
		if i > 0 && x.uplink != got[i-1].uplink {
			out = append(out, fmt.Sprintf("%s to %s after %v", e.Provider(got[i-1].uplink).Dev, e.Provider(x.uplink).Dev,
				x.at.Sub(t).Round(time.Millisecond)))
		}
	}
	return out
}

// uplinkLabels are the labels of the uplinks in uplinkPorts.
var uplinkLabels = []string{"wan", "lte", "dsl", "sat"}

// uplinkPorts returns the ports of a config with so many uplinks, each with a DNS server behind its gateway. Of those
// that work, the first is the cheapest; with a step of 0 the one in use stays.
func uplinkPorts(n, step int) string {
	var b strings.Builder
	b.WriteString("ports:\n")
	for i := range n {
		fmt.Fprintf(&b, "  %s: {ifName: uplink%d, uplink: true, cost: %d, dnsServers: %s}\n", uplinkLabels[i], i, step*i,
			lab.DNSAddr)
	}
	return b.String()
}

// newUplinkWorld starts a daemon with network 1, which may use each uplink with default settings, and app 1 on it.
func newUplinkWorld(t testing.TB, o lab.Options, costStep int) *world {
	t.Helper()
	o.Apps = []string{"web"}
	w := newWorldOf(t, o)
	w.start(uplinkPorts(o.Uplinks, costStep) + "networkInstances:\n" +
		strings.Replace(network(1, ""), "port: wan", "port: uplink", 1) + "appNetworks:\n" + onNet(1, 1, "web", allowAll))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	return w
}

// breakUplink makes an uplink fail and returns when it was told to.
func (w *world) breakUplink(n int, f lab.Fault) time.Time {
	w.Helper()
	t := time.Now()
	if err := w.Break(w.ctx, n, f); err != nil {
		w.Fatal(err)
	}
	return t
}

func (w *world) repairUplink(n int, f lab.Fault) {
	w.Helper()
	if err := w.Repair(w.ctx, n, f); err != nil {
		w.Fatal(err)
	}
}

// distribution reports the quantiles of durations in milliseconds.
func distribution(b *testing.B, took []time.Duration) {
	b.Helper()
	ms := make([]float64, len(took))
	for i, d := range took {
		ms[i] = float64(d.Microseconds()) / 1000
	}
	b.ReportMetric(0, "ns/op") // everything else that the benchmark does
	quantiles(b, "ms", ms)
}
