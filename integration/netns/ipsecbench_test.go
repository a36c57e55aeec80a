package netns_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/platform/proc"
)

const (
	streamWindow = 400 * time.Millisecond
	streamPairs  = 25
)

// stream is a TCP connection through a tunnel that sends only while it may.
type stream struct {
	got  atomic.Int64
	gate chan struct{} // each element lets one write pass
}

// newStream connects two namespaces by TCP.
func newStream(b *testing.B, node, peer *netns.NS) *stream {
	b.Helper()
	var ln net.Listener
	peer.Do(b, func() (err error) {
		ln, err = net.Listen("tcp", peerInside+":0")
		return err
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

// rate is what arrives in one window, in bits per second.
func (s *stream) rate() float64 {
	begin := time.Now()
	before := s.got.Load()
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
	b.ReportMetric(ratios[mid], "ratio")
	b.ReportMetric(spread, "noise")
}
