package netns_test

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
)

const (
	wgPairs  = 61                     // of windows that BenchmarkWireGuard compares
	wgWindow = 200 * time.Millisecond // how long a window is
)

// BenchmarkWireGuard compares what a tunnel of edgespan's carries with what one of plain wireguard-go does, as its
// authors ship it: a TCP stream each to the same peer, which has plain wireguard-go, in windows by turns. cpu-ratio
// compares what each carries in a second of its process's processor time, which a busy machine spoils less.
func BenchmarkWireGuard(b *testing.B) {
	for range b.N {
		l := newWGLab(b, 1)
		v := l.vpn(1)
		v.Limits = netstate.ProcessLimits{} // those of a network bound its processor time
		l.put(v)
		plain, inside, pid := newPlainWG(b, l)
		ours := newWGStream(b, l.node, l.peers[0].ns, l.peers[0].inside, 9001)
		theirs := newWGStream(b, plain, l.peers[0].ns, inside, 9002)
		process := l.status().By == "process"
		if theirs.pid = pid; process {
			ours.pid = l.helper().Pid
		}
		var ratios, cpuRatios, our, their []float64
		for i := range wgPairs + 1 {
			turns := []*wgStream{ours, theirs}
			if i%2 == 1 {
				slices.Reverse(turns)
			}
			rate, cpuRate := map[*wgStream]float64{}, map[*wgStream]float64{}
			for _, s := range turns {
				rate[s], cpuRate[s] = s.window(wgWindow)
			}
			if i > 0 { // the first warms up
				ratios = append(ratios, rate[ours]/rate[theirs])
				cpuRatios = append(cpuRatios, cpuRate[ours]/cpuRate[theirs])
				our, their = append(our, rate[ours]), append(their, rate[theirs])
			}
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(wgMiddle(our, 0.5), "Mbit/s")
		b.ReportMetric(wgMiddle(their, 0.5), "Mbit/s-beside")
		b.ReportMetric(wgMiddle(ratios, 0.5), "ratio")
		b.ReportMetric(wgNoise(ratios), "noise")
		if process {
			b.ReportMetric(wgMiddle(cpuRatios, 0.5), "cpu-ratio")
			b.ReportMetric(wgNoise(cpuRatios), "cpu-ratio-noise")
			bytes, _ := l.helper().Resident()
			b.ReportMetric(float64(bytes)/1e6, "MB-rss")
		}
	}
}

func wgNoise(list []float64) float64 {
	return 1.57 * (wgMiddle(list, 0.75) - wgMiddle(list, 0.25)) / math.Sqrt(float64(len(list)))
}

func wgMiddle(list []float64, at float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[int(at*float64(len(list)-1)+0.5)]
}

// newPlainWG makes another node of the lab with the program wireguard-go, and returns the peer's address in its tunnel.
func newPlainWG(b *testing.B, l *wgLab) (node *netns.NS, peerInside netip.Addr, pid int) {
	b.Helper()
	program := filepath.Join(b.TempDir(), "wireguard-go")
	if out, err := exec.Command("go", "build", "-o", program, "golang.zx2c4.com/wireguard").CombinedOutput(); err != nil {
		b.Fatalf("build wireguard-go: %v: %s", err, out)
	}
	ns, keys, peer := netns.New(b), newWGKeys(b), l.peers[0]
	l.plug(ns, 9)
	link := fmt.Sprintf("wgp%d", os.Getpid()) // names its socket, for the whole machine
	cmd := exec.Command("nsenter", "--net="+ns.Path, "--", program, "-f", link)
	// A session of its own, like any daemon's: the scheduler shares the processor among sessions (autogroup).
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append(os.Environ(), "LOG_LEVEL=error")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it removes its socket
		_ = cmd.Wait()
	})
	there := netip.MustParseAddr("10.8.0.2")
	peer.ns.Exec(b, "ip", "addr", "add", there.String()+"/24", "dev", "wgp")
	peer.set("public_key=%s\nallowed_ip=10.8.0.1/32\n", hexKey(keys.public))
	at := &wgPeer{TB: b, folder: "/var/run/wireguard"}
	socket := link + ".sock"
	until(b, "wireguard-go answers", func() bool { _, err := at.askAt(socket, "get=1\n\n"); return err == nil })
	_, err := at.askAt(socket, fmt.Sprintf("set=1\nprivate_key=%s\npublic_key=%s\nendpoint=%s:%d\nallowed_ip=%s/32\n\n",
		hexKey(keys.private), hexKey(peer.keys.public), peer.under, wgPort, there))
	if err != nil {
		b.Fatal(err)
	}
	ns.Exec(b, "ip", "addr", "add", "10.8.0.1/24", "dev", link)
	ns.Exec(b, "ip", "link", "set", link, "mtu", "1420", "up")
	reached(b, ns, there)
	return ns, there, cmd.Process.Pid
}

// wgStream sends by TCP in windows.
type wgStream struct {
	testing.TB
	conn net.Conn
	got  atomic.Int64
	pid  int // of the tunnel's process at the sender, 0 for none
}

func newWGStream(b *testing.B, from, at *netns.NS, to netip.Addr, port uint16) *wgStream {
	b.Helper()
	s := &wgStream{TB: b}
	address := netip.AddrPortFrom(to, port).String()
	var listen net.Listener
	at.Do(b, func() (err error) { listen, err = net.Listen("tcp", address); return err })
	b.Cleanup(func() { _ = listen.Close() })
	go func() {
		conn, err := listen.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for buf := make([]byte, 1<<20); ; {
			n, err := conn.Read(buf)
			if s.got.Add(int64(n)); err != nil {
				return
			}
		}
	}()
	from.Do(b, func() (err error) { s.conn, err = net.DialTimeout("tcp", address, wgTimeout); return err })
	b.Cleanup(func() { _ = s.conn.Close() })
	return s
}

// window sends for a while and returns the Mbit/s that arrive, and the Mbit in a second of the process.
func (s *wgStream) window(d time.Duration) (rate, cpuRate float64) {
	s.Helper()
	begin, before, cpu := time.Now(), s.got.Load(), s.cpu()
	if err := s.conn.SetDeadline(begin.Add(wgTimeout)); err != nil {
		s.Fatal(err)
	}
	buf, sent := make([]byte, 1<<20), 0
	for time.Since(begin) < d {
		n, err := s.conn.Write(buf)
		if sent += n; err != nil {
			s.Fatal(err)
		}
	}
	// What is on its way is counted, with its time.
	wgUntil(s, wgTimeout, "all has arrived", func() bool { return s.got.Load() >= before+int64(sent) })
	mbit := float64(sent) * 8 / 1e6
	return mbit / time.Since(begin).Seconds(), mbit / (s.cpu() - cpu).Seconds()
}

// cpu is the time that the threads of the process have run (/proc/PID/task/TID/schedstat, in nanoseconds). None ends.
func (s *wgStream) cpu() (sum time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.pid))
	for _, path := range threads {
		var run time.Duration
		text, err := os.ReadFile(path)
		if err == nil {
			_, err = fmt.Sscan(string(text), &run)
		}
		if err != nil {
			s.Fatal(err)
		}
		sum += run
	}
	return sum
}
