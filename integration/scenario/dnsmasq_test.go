package scenario

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestADnsmasqThatDiesIsStartedAgainAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	w.killDnsmasq()
	w.answersWithin(2 * time.Second)

	// A dnsmasq that an earlier daemon started is watched too.
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.killDnsmasq()
	w.answersWithin(2 * time.Second)
}

func TestADnsmasqThatDiesAgainAndAgainIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	for range 5 { // the fifth waits for 800 ms
		w.killDnsmasq()
		w.eventually("another dnsmasq", func() bool { return w.dnsmasq() != "" })
		w.wait("ready", "ni/"+ni(1))
	}
	w.killDnsmasq()
	w.eventually("a word in the status", func() bool {
		st := w.status("ni", ni(1))
		why, _ := st["error"].(string)
		return st["state"] == "CheckPresentFailed" &&
			strings.Contains(why, "dnsmasq has ended by itself 6 times in a row; next start in 1.6s")
	})
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.answersWithin(2 * time.Second)
}

// killDnsmasq kills the lab's only dnsmasq and returns when it has ended.
func (w *world) killDnsmasq() {
	w.Helper()
	before := w.dnsmasq()
	pid, err := strconv.Atoi(before)
	if err != nil {
		w.Fatalf("the dnsmasq are %q, want one", before)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		w.Fatal(err)
	}
	w.eventually("the end of dnsmasq", func() bool { return w.dnsmasq() != before })
}

// answersWithin fails the test unless the network's DNS answers the app in time.
func (w *world) answersWithin(d time.Duration) {
	w.Helper()
	begin := time.Now()
	for {
		r, err := w.Exec(w.ctx, "web", "dig", "+short", "+tries=1", "+time=1", "@10.1.0.1", "app1.n1.edge")
		took := time.Since(begin)
		if err == nil && r.Code == 0 && strings.TrimSpace(r.Out) == "10.1.0.128" {
			w.Logf("DNS answers after %v", took)
			if took > scaled(d) {
				w.Errorf("DNS answered after %v, want %v", took, d)
			}
			return
		}
		if took > scaled(10*time.Second) {
			w.Fatalf("no DNS answer for %v: status %d, %v: %s", took, r.Code, err, r.Out+r.Err)
		}
	}
}
