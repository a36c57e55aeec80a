package netns_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/platform/proc"
)

const (
	streamWindow = 400 * time.Millisecond
	streamPairs  = 25
	streamBuffer = 64 << 10
)

// stream is a TCP connection through a tunnel that sends only while it may.
type stream struct {
	got atomic.Int64
	pid int // of the charon at the sending end
	// In all windows: the processor time of that charon, and octets.
	cpu   time.Duration
	total int64
	gate  chan struct{} // each element lets one write pass
}

// newStream connects two namespaces by TCP.
func newStream(b *testing.B, node, peer *netns.NS) *stream {
	b.Helper()
	var ln net.Listener
	peer.Do(b, func() (err error) {
		// A window that the buffers on the way can hold: nothing is lost, and no congestion control decides.
		lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) {
				err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, streamBuffer)
			})
		}}
		var listenErr error
		ln, listenErr = lc.Listen(b.Context(), "tcp", peerInside+":0")
		return errors.Join(err, listenErr)
	})
	b.Cleanup(func() { _ = ln.Close() })
	s := &stream{gate: make(chan struct{})}
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return // the benchmark has ended
		}
		defer c.Close()
		buf := make([]byte, 256<<10)
		for err == nil {
			var n int
			n, err = c.Read(buf)
			s.got.Add(int64(n))
		}
	}()
	var c net.Conn
	err := proc.In(node.Path, func() (err error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ipsecInside)}, Timeout: ipsecTimeout}
		c, err = d.Dial("tcp", ln.Addr().String())
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	go func() {
		buf := make([]byte, 64<<10)
		for range s.gate {
			if _, err := c.Write(buf); err != nil && !errors.Is(err, io.EOF) {
				return // the benchmark has ended
			}
		}
	}()
	b.Cleanup(func() { close(s.gate) })
	return s
}

// spent is the processor time of the charon.
func (s *stream) spent() time.Duration {
	u, err := proc.UsageOf(s.pid)
	if err != nil {
		return 0
	}
	return u.CPU
}

// rate is what arrives in one window, in bits per second.
func (s *stream) rate() float64 {
	begin := time.Now()
	before, spent := s.got.Load(), s.spent()
	for time.Since(begin) < streamWindow {
		select {
		case s.gate <- struct{}{}:
		case <-time.After(streamWindow - time.Since(begin)):
		}
	}
	got := s.got.Load() - before
	took := time.Since(begin)
	// What is on its way arrives before the other stream sends.
	for last := s.got.Load(); ; last = s.got.Load() {
		time.Sleep(20 * time.Millisecond)
		if s.got.Load() == last {
			break
		}
	}
	s.cpu += s.spent() - spent
	s.total += s.got.Load() - before
	return float64(got) * 8 / took.Seconds()
}

// BenchmarkIPsec compares the throughput of a tunnel with that of one that plain strongSwan makes by itself, with the
// same algorithms, in pairs of windows, of which each has the other order than the one before.
func BenchmarkIPsec(b *testing.B) {
	ours := newIPsecLab(b)
	ours.startSwan(swanPSK(ipsecSecret, "", "esp_proposals = aes128gcm16"))
	v := ours.vpn(1)
	v.IPsec.ESP = "aes128gcm16"
	ours.put(v)
	s := ours.up()

	plain := newIPsecLab(b)
	plain.startSwan(swanPSK(ipsecSecret, "", "esp_proposals = aes128gcm16"))
	plain.node.Exec(b, "ip", "addr", "add", ipsecInside+"/32", "dev", "lo")
	plain.node.Exec(b, "ip", "route", "add", "default", "via", "198.18.1.1")
	node := &plainSwan{t: b, ns: plain.node, dir: filepath.Join(plain.dir, "node")}
	if err := os.MkdirAll(node.dir, 0o700); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(node.kill)
	node.start()
	node.load(fmt.Sprintf(`connections { gw {
	version = 2
	remote_addrs = %s
	local { auth = psk
 id = node.example }
	remote { auth = psk
 id = peer.example }
	children { lan {
		local_ts = 10.1.0.0/24
		remote_ts = 10.2.0.0/24
		esp_proposals = aes128gcm16
		start_action = start
	} }
} }
secrets { ike-1 { secret = "%s" } }
`, ipsecPeer, ipsecSecret))
	until(b, "the plain tunnel carries packets",
		func() bool { return pings(b, plain.node, ipsecInside, peerInside, 1, "0.1") == 0 })

	a, p := newStream(b, ours.node, ours.peer), newStream(b, plain.node, plain.peer)
	a.pid, p.pid = ours.charonPID(ipsecNumber), node.cmd.Process.Pid
	a.rate()
	p.rate()
	var ratios, rates, others []float64
	for b.Loop() {
		ratios, rates, others = nil, nil, nil
		for i := range streamPairs {
			var x, y float64
			if i%2 == 0 {
				x, y = a.rate(), p.rate()
			} else {
				y, x = p.rate(), a.rate()
			}
			ratios, rates, others = append(ratios, x/y), append(rates, x), append(others, y)
		}
	}
	for _, all := range [][]float64{ratios, rates, others} {
		slices.Sort(all)
	}
	mid := len(ratios) / 2
	// The noise of a median: a quarter of the pairs on either side of it, over the root of their number.
	spread := (ratios[mid+mid/2] - ratios[mid-mid/2]) / math.Sqrt(float64(len(ratios)))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rates[mid]/1e6, "Mbit/s-"+s.By)
	b.ReportMetric(others[mid]/1e6, "Mbit/s-plain")
	b.ReportMetric(a.cpu.Seconds()*1e9/float64(a.total), "cpu-ns/octet")
	b.ReportMetric(p.cpu.Seconds()*1e9/float64(p.total), "cpu-ns/octet-plain")
	b.ReportMetric(ratios[mid], "ratio")
	b.ReportMetric(spread, "noise")
}

// BenchmarkIPsecUplink measures, for each move of the uplink, how long it takes until a packet that was sent after it is
// answered through the tunnel.
func BenchmarkIPsecUplink(b *testing.B) {
	l := newIPsecLab(b)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	l.put(l.vpn(1))
	l.up()
	var echo, from net.PacketConn
	l.peer.Do(b, func() (err error) {
		echo, err = net.ListenPacket("udp", peerInside+":7")
		return err
	})
	l.node.Do(b, func() (err error) {
		from, err = net.ListenPacket("udp", ipsecInside+":0")
		return err
	})
	b.Cleanup(func() { _, _ = echo.Close(), from.Close() })
	go func() {
		buf := make([]byte, 64)
		for {
			n, at, err := echo.ReadFrom(buf)
			if err != nil {
				return // the benchmark has ended
			}
			_, _ = echo.WriteTo(buf[:n], at) // one that is lost is sent again
		}
	}()
	to := &net.UDPAddr{IP: net.ParseIP(peerInside), Port: 7}
	answered := func(seq uint64) bool {
		buf := make([]byte, 64)
		if _, err := from.WriteTo(binary.BigEndian.AppendUint64(nil, seq), to); err != nil {
			return false // there is no way at the moment
		}
		for {
			if err := from.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
				b.Fatal(err)
			}
			n, _, err := from.ReadFrom(buf)
			if err != nil {
				return false
			}
			if n == 8 && binary.BigEndian.Uint64(buf) >= seq {
				return true
			}
		}
	}
	var took []float64
	seq := uint64(0)
	for i := 0; b.Loop(); i++ {
		for range 50 { // it stands and carries packets
			seq++
			answered(seq)
		}
		begin := time.Now()
		l.choose([]string{"up1", "up0"}[i%2])
		at := map[string]string{"up0": "198.18.1.2", "up1": "198.18.2.2"}[[]string{"up1", "up0"}[i%2]]
		for moved := false; !moved; { // answers by the way before are none
			out, err := l.swan.swanctl("--list-sas")
			if moved = err == nil && strings.Contains(out, at); time.Since(begin) > time.Minute {
				b.Fatalf("move %d: the peer does not see it: %s", i, out)
			}
		}
		for seq++; !answered(seq); seq++ {
			if time.Since(begin) > time.Minute {
				b.Fatalf("move %d: no packet passes after a minute", i)
			}
		}
		took = append(took, float64(time.Since(begin).Microseconds())/1000)
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[len(took)/2], "p50-ms")
	b.ReportMetric(took[(len(took)*99+99)/100-1], "p99-ms")
}
