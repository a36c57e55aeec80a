package node

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/stateloop"
	"edgespan/netinst/probe"
)

// details returns what a report says of each port and network, by name.
func details(r nodeproto.Report) map[string]string {
	out := map[string]string{}
	for _, h := range r.Health {
		if strings.HasPrefix(h.Name, "port/") {
			out[h.Name] = h.Detail
		}
	}
	for _, p := range r.Parameters {
		out[p.ID] = p.Detail
	}
	return out
}

// A node reports how its networks judge their ports and which one each has chosen. Whether providers answer is no
// property of a config: it makes nothing bad, undoes no push and fails no rollout.
func TestADeadProviderIsReportedAndUndoesNoPush(t *testing.T) {
	onRig(t, func(r *rig) {
		dead := r.setUplinks()
		s := &steward{r: r}
		r.node.Agent().Up(s)
		ni := stateloop.NetworkID(niID(1))
		r.push(1, withProbedUplinks(1))
		r.settle(30 * time.Second)
		if got := details(s.report()); got["port/wan"] != "works" || got["port/lte"] != "works" ||
			!strings.HasPrefix(got[ni], "by port wan: ") {
			t.Errorf("both work: %q", got)
		}
		s.late = 40 * time.Second // the push is pending while the providers die
		r.push(2, strings.Replace(withProbedUplinks(1), "domain: edge", "domain: other", 1))
		r.settle(5 * time.Second)
		for i, c := range []struct{ dies, wan, lte, by string }{
			{"wan", "no target answers (dns 198.51.100.53: ", "works", "by port lte: "},
			{"lte", "no target answers (dns 198.51.100.53: ", "no target answers (dns 198.51.100.54: ", "by port lte: "},
		} {
			dead.Store(c.dies, silent)
			r.settle(10 * time.Second)
			now := s.report()
			got := details(now)
			if !strings.HasPrefix(got["port/wan"], c.wan) || !strings.HasPrefix(got["port/lte"], c.lte) ||
				!strings.HasPrefix(got[ni], c.by) {
				t.Errorf("%d dead: %q", i+1, got)
			}
			if now.Pending == nil || len(now.Pending.Worse) > 0 || !good(now, "port/wan") || !good(now, "port/lte") {
				t.Errorf("%d dead: it reports %+v, pending %+v", i+1, now.Health, now.Pending)
			}
			for _, p := range now.Parameters { // by which a rollout fails, with the health
				if p.State != "Present" {
					t.Errorf("%d dead: %+v", i+1, p)
				}
			}
		}
		r.settle(2 * time.Minute)
		if got := s.outcomes(); !slices.Equal(got, []string{"accepted", "applied", "accepted", "applied"}) {
			t.Errorf("the results are %q", got)
		}
		if src, _ := r.node.Topics().Source.Get("", "node"); src.Source != "controller" {
			t.Errorf("it runs %+v", src)
		}
		dead.Clear()
		r.settle(time.Minute)
		if got := details(s.report()); got["port/wan"] != "works" || !strings.HasPrefix(got[ni], "by port wan: ") {
			t.Errorf("both work again: %q", got)
		}
	})
}

// A provider that words its refusals differently each time, as a captive portal may, makes a node report no more.
func TestAnotherErrorOfADeadProviderIsNoReport(t *testing.T) {
	onRig(t, func(r *rig) {
		var shots atomic.Int64
		s := &steward{r: r}
		r.setUplinks()
		r.host.SetProbes(func(id probe.ID) error {
			if id.Port != "wan" || id.Method != probe.DNS {
				return nil
			}
			return fmt.Errorf("redirected to h%d.example.org", shots.Add(1))
		})
		r.node.Agent().Up(s)
		r.push(1, withProbedUplinks(1))
		r.settle(time.Minute)
		before := s.reports()
		r.settle(10 * time.Minute)
		if n := s.reports() - before; n > 125 { // one each 5 s says that the node is there
			t.Errorf("%d reports in 10 minutes", n)
		}
		const why = "no target answers (dns 198.51.100.53: redirected to h8.example.org)"
		if got := details(s.report())["port/wan"]; got != why {
			t.Errorf("it reports %q, want %q", got, why)
		}
		x, err := r.node.Explain(t.Context(), "port", "wan")
		if newest := fmt.Sprintf("redirected to h%d.", shots.Load()); err != nil || !strings.Contains(fmt.Sprint(x.Port), newest) {
			t.Errorf("%v: %+v does not say %q", err, x.Port, newest)
		}
	})
}

// reports counts the reports.
func (s *steward) reports() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.said {
		if _, is := m.(nodeproto.Report); is {
			n++
		}
	}
	return n
}
