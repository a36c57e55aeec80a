package scenario

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// firstPackets opens a connection after the other from an app until it is stopped, each with a port of its own, so that
// each begins with the first packet of a flow. None may have to send that packet twice, which the kernel does after a
// second.
type firstPackets struct {
	opened, failed int
	why            error
	stop           func()
}

func (w *world) firstPackets(short, to string) *firstPackets {
	w.Helper()
	f, end := &firstPackets{}, make(chan struct{})
	var opening sync.WaitGroup
	opening.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
			}
			c, err := w.dial(short, "tcp4", "", to, 900*time.Millisecond)
			if err != nil {
				f.failed, f.why = f.failed+1, err
				continue
			}
			f.opened++
			_ = c.Close()
		}
	})
	f.stop = func() { close(end); opening.Wait() }
	return f
}

// hookPackets returns how many packets have met the rule by which a bridge's packets come to network 1. A rule that is
// written anew counts from 0.
func (w *world) hookPackets(env []string) int {
	w.Helper()
	save := "iptables-save"
	if env != nil {
		save = "iptables-legacy-save"
	}
	rule := regexp.MustCompile(`(?m)^\[(\d+):\d+\] -A ES-NETS-FROM-1 -i es1 -j ES1-FWD$`)
	found := rule.FindAllStringSubmatch(w.in("node", save, "-c", "-t", "filter"), -1)
	if len(found) != 1 {
		w.Fatalf("the hook of network 1 is there %d times", len(found))
	}
	n, err := strconv.Atoi(found[0][1])
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// Networks that come and go, with new branches of the trees that lead to networks, neither touch the hook of another
// network nor cost it a packet, the first ones of its flows included.
func TestNetworksComeAndGoBesideFirstPackets(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, env []string) {
		t.Parallel()
		w := newWorld(t, "web")
		one := func(more ...int) string {
			nets := []string{network(1, "")}
			for _, n := range more {
				nets = append(nets, network(n, ""))
			}
			return doc(nets, onNet(1, 1, "web", allowAll))
		}
		w.start(one(), env...)
		w.wait("ready", "app/"+app(1))
		w.lease("web")
		w.echo("isp", "tcp4", lab.WebAddr+":7007")
		w.reaches("before", "web", "tcp4", "", lab.WebAddr+":7007")
		pings, first := w.pingOut("web"), w.firstPackets("web", lab.WebAddr+":7007")
		packets := w.hookPackets(env)
		for round := range 3 {
			// Numbers 2 to 12: networks 10 to 12 are in the branch of network 1, the others in branches of their own.
			w.apply(one(2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12))
			for n := 2; n <= 12; n++ {
				w.wait("ready", "ni/"+ni(n))
			}
			if rules := w.in("node", "sh", "-c", "iptables-save 2>/dev/null; iptables-legacy-save 2>/dev/null; :"); !strings.Contains(
				rules, "-A ES-NETS-FROM -i es9+ -j ES-NETS-FROM-9") ||
				!strings.Contains(rules, "-A ES-NETS-FROM-1 -i es12 -j ES12-FWD") {
				t.Errorf("round %d: no branches:\n%s", round, rules)
			}
			w.apply(one())
			w.eventually("no branch but that of network 1", func() bool {
				rules := w.in("node", "sh", "-c", "iptables-save 2>/dev/null; iptables-legacy-save 2>/dev/null; :")
				return !strings.Contains(rules, "ES-NETS-FROM-9") && !strings.Contains(rules, "ES12-")
			})
			now := w.hookPackets(env)
			if now <= packets {
				t.Errorf("round %d: the hook of network 1 has met %d packets and had %d: it was written anew", round, now, packets)
			}
			packets = now
		}
		first.stop()
		// The kernel's translation itself drops a packet in some 10,000 while routes come and go: counters behind each hook
		// show that it has met the rule MASQUERADE and no rule that drops it.
		if first.failed > 1 || first.opened < 100 {
			t.Errorf("%d connections opened, %d failed: %v", first.opened, first.failed, first.why)
		}
		counts := fmt.Sprint(first.opened, " connections")
		for _, p := range pings {
			n := p.Stop()
			if counts += fmt.Sprint(", pings ", n); n.Lost+n.Wrong > 0 {
				t.Errorf("pings: %v, want none lost", n)
			}
		}
		t.Log(counts)
	})
}
