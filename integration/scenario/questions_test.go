package scenario

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"

	"edgespan/platform/lab"
)

// An app sends queries that get no answer, as fast as its limit permits, and its neighbour loses no answer: dnsmasq
// can have more queries open than one app may send.
func TestAnAppThatAsksInVainTakesNoAnswerFromAnother(t *testing.T) {
	w := newWorld(t, "web", "client")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll)))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.lease("web")
	w.lease("client")
	const questions = 6000 // 2,000 per second
	asked := make(chan error, 1)
	go func() {
		asked <- w.inside("web", func() error {
			c, err := net.Dial("udp4", "10.1.0.1:53")
			if err != nil {
				return err
			}
			defer c.Close()
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for i := range questions {
				q, err := new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.%s.", i, lab.SilentDomain), dns.TypeA).Pack()
				if err != nil {
					return err
				}
				if _, err := c.Write(q); err != nil {
					return err
				}
				if i%10 == 9 {
					<-tick.C
				}
			}
			return nil
		})
	}()
	answers := 0
	for ended := false; !ended; {
		select {
		case err := <-asked:
			if err != nil {
				t.Fatal(err)
			}
			ended = true
		default:
		}
		if got := w.in("client", "dig", "+short", "+tries=3", "+time=1", "@10.1.0.1", lab.WebName); got != lab.WebAddr {
			t.Fatalf("after %d answers the neighbour is told %q, want %s", answers, got, lab.WebAddr)
		}
		answers++
	}
	t.Logf("%d answers meanwhile", answers)

	// dnsmasq serves 20 TCP connections at a time, and a silent one for 150 s.
	open := 0
	if err := w.inside("web", func() error {
		for range 30 {
			c, err := net.DialTimeout("tcp4", "10.1.0.1:53", 300*time.Millisecond)
			if err != nil {
				continue // dropped
			}
			open++
			t.Cleanup(func() { _ = c.Close() })
		}
		return nil
	}); err != nil || open == 0 {
		t.Fatalf("%d connections, %v", open, err)
	}
	if got := w.in("client", "dig", "+tcp", "+short", "+tries=3", "+time=2", "@10.1.0.1",
		lab.WebName); got != lab.WebAddr {
		t.Errorf("beside %d connections of TCP the neighbour is told %q", open, got)
	}
}
