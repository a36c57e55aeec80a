package scenario

import (
	wire "encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"edgespan/platform/lab"
)

// BenchmarkApplyBesideDNS creates networks while an app of another one gets 5,000 DNS answers a second, and without:
// medians of interleaved pairs. The bar is 1.1 x; each answer must be read or counted as unread.
func BenchmarkApplyBesideDNS(b *testing.B) {
	const pairs, perSecond = 12, 5000
	for range b.N {
		w := newWorld(b, "web")
		nets := []string{network(1, "")}
		web := onNet(1, 1, "web", allowAll)
		w.start(doc(nets, web))
		w.wait("ready", "app/"+app(1))
		w.lease("web")
		send := w.answersTo("web")
		w.eventually("answers are read", func() bool { send(0); return w.dnsOf("app1/0").Answers["NOERROR"] > 0 })
		var flooding atomic.Bool
		var sent atomic.Int64
		done, stop := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for n := int64(0); ; {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				for range perSecond / 100 {
					if flooding.Load() {
						n++
						send(int(n))
						sent.Store(n)
					}
				}
			}
		}()
		read := w.readDNS()
		cpu := cpuTime(b, w.daemonPID())
		var beside, alone []time.Duration
		var flooded time.Duration
		for i := range 2 * pairs {
			nets = append(nets, network(2+i, ""))
			with := i%4 == 0 || i%4 == 3
			flooding.Store(with)
			began := time.Now()
			w.apply(doc(nets, web))
			w.wait("ready", "ni/"+ni(2+i))
			if took := time.Since(began); with {
				beside, flooded = append(beside, took), flooded+took
			} else {
				alone = append(alone, took)
			}
		}
		quiet := cpuTime(b, w.daemonPID())
		flooding.Store(true)
		began := time.Now()
		<-time.After(5 * time.Second)
		flooding.Store(false)
		busy := cpuTime(b, w.daemonPID()) - quiet
		took := time.Since(began)
		close(stop)
		<-done
		var counted int64
		w.eventually("all are counted", func() bool { counted = w.readDNS() - read; return counted >= sent.Load() })
		slices.Sort(beside)
		slices.Sort(alone)
		b.Logf("beside %v, alone %v; %d answers, of %d counted; %v of processor time of the daemon for the applies", beside, alone,
			sent.Load(), counted, quiet-cpu)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(beside[pairs/2])/float64(alone[pairs/2]), "ratio")
		b.ReportMetric(float64(beside[pairs/2].Microseconds())/1000, "ms/beside")
		b.ReportMetric(float64(alone[pairs/2].Microseconds())/1000, "ms/alone")
		b.ReportMetric(100*busy.Seconds()/took.Seconds(), "%cpu")
		b.ReportMetric(float64(w.daemonMemory())/1024, "MiB")
	}
}

// answersTo returns what sends the nth answer of a server of others to an app, by the bridge of its network.
func (w *world) answersTo(short string) func(n int) {
	link, own, gate := w.rawOn("node", "es1"), w.mac(short, "eth0"), w.mac("node", "es1")
	ip, server := w.ip(app(1)), netip.MustParseAddr(lab.DNSAddr)
	m := new(dns.Msg).SetQuestion("0000000.example.org.", dns.TypeA)
	m.Response = true
	rr, err := dns.NewRR("0000000.example.org. 60 IN A 192.0.2.1")
	if err != nil {
		w.Fatal(err)
	}
	m.Answer = []dns.RR{rr}
	m.Compress = true
	payload, err := m.Pack()
	if err != nil {
		w.Fatal(err)
	}
	return func(n int) {
		copy(payload[13:], fmt.Sprintf("%07d", n%10000000))
		wire.BigEndian.PutUint16(payload, uint16(n))
		if err := link.send(ether(own, gate, etherIPv4, ipv4(server, ip, 17, udp(53, 4000, payload)))); err != nil {
			w.Error(err)
		}
	}
}

// readDNS is how many DNS answers of the first network were read or counted as unread.
func (w *world) readDNS() (n int64) {
	w.Helper()
	s := w.dnsOf("app1/0")
	for _, count := range s.Answers {
		n += int64(count)
	}
	return n + int64(s.Unread)
}
