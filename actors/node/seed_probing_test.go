package node

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
)

// The seed eve-bridge-manager, "Bridge manager", on probing: each test is a row of docs/seeds.md.

// proberRig is a rig with two uplinks, wan of cost 0 and lte of cost 10, that counts the shots of each probe.
type proberRig struct {
	*rig
	wan, lte netstate.Interface
	mu       sync.Mutex
	shots    map[probe.ID]int
	dead     func(probe.ID) bool
}

func onUplinks(t *testing.T, f func(r *proberRig)) {
	t.Helper()
	onRig(t, func(r *rig) {
		p := &proberRig{rig: r, shots: map[probe.ID]int{}, dead: func(probe.ID) bool { return false }}
		p.wan, p.lte = wanAndLTE()
		r.host.SetInterfaces(p.wan, p.lte)
		r.host.SetProbes(func(id probe.ID) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.shots[id]++; p.dead(id) {
				return context.DeadlineExceeded
			}
			return nil
		})
		f(p)
	})
}

// configure applies nets networks on all uplinks; more is what the last of them has besides.
func (r *proberRig) configure(nets int, more string) {
	r.Helper()
	text := withLTE(doc(nets, 0))
	text = strings.ReplaceAll(text, "port: wan", "port: uplink")
	if i := strings.LastIndex(text, "ipv4:"); more != "" {
		text = text[:i] + more + ", " + text[i:]
	}
	r.apply(text)
	for n := 1; n <= nets; n++ {
		r.ready(5*time.Second, "ni/"+niID(n))
	}
}

// count forgets the shots so far, lets d pass and returns the shots of each probe.
func (r *proberRig) count(d time.Duration) map[probe.ID]int {
	r.mu.Lock()
	r.shots = map[probe.ID]int{}
	r.mu.Unlock()
	r.settle(d)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shots
}

// kill changes which shots have no answer.
func (r *proberRig) kill(dead func(probe.ID) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = dead
}

// probed returns the probes that a network needs, such as "wan arp 192.0.2.1", sorted.
func (r *proberRig) probed(n int) string {
	var list []string
	for _, id := range r.node.d.topics.ProbeRequest.List(niID(n)) {
		list = append(list, id.Port+" "+string(id.Method)+" "+id.Target)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func (r *proberRig) uses(n int) string {
	s, _ := r.node.d.topics.NetworkStatus.Get("", niID(n))
	return s.Port
}

// EBM-23: each bridge manager probes for its own network and decides alone. A probe that several need is sent once.
func TestSeed_EachBridgeManagerProbesItsUplinksAndDecidesAlone(t *testing.T) {
	onUplinks(t, func(r *proberRig) {
		r.configure(3, "probe: {method: http, target: http://203.0.113.80/}")
		shots := r.count(20 * time.Second)
		if len(shots) != 5 { // the gateway and the DNS server of wan, that of lte, the third network's target by both
			t.Errorf("%d probes: %v", len(shots), shots)
		}
		for id, n := range shots {
			if n < 19 || n > 21 {
				t.Errorf("%v: %d shots in 20 s, want one a second whatever the number of networks", id, n)
			}
		}
		r.kill(func(id probe.ID) bool { return id.Port == "wan" && id.Method == probe.HTTP })
		r.settle(5 * time.Second)
		if r.uses(1) != "wan" || r.uses(2) != "wan" || r.uses(3) != "lte" {
			t.Errorf("the third network's target is dead: %s %s %s", r.uses(1), r.uses(2), r.uses(3))
		}
		r.kill(func(id probe.ID) bool { return id.Port == "wan" && id.Method == probe.DNS })
		r.settle(5 * time.Second)
		if r.uses(1) != "lte" || r.uses(2) != "lte" {
			t.Errorf("the DNS server is dead: %s %s", r.uses(1), r.uses(2))
		}
	})
}

// EBM-74: the database of probes follows the ports, and goes with the network.
func TestSeed_TheProbesOfANetworkFollowItsPorts(t *testing.T) {
	onUplinks(t, func(r *proberRig) {
		r.configure(2, "")
		both := "lte dns 198.51.100.54, wan arp 192.0.2.1, wan dns 198.51.100.53"
		check := func(when, want string) {
			t.Helper()
			r.settle(3 * time.Second)
			if got := r.probed(1); got != want {
				t.Errorf("%s: probes %s, want %s", when, got, want)
			}
			for id := range r.count(15 * time.Second) {
				if text := id.Port + " " + string(id.Method) + " " + id.Target; !strings.Contains(want, text) {
					t.Errorf("%s: %s is still probed", when, text)
				}
			}
		}
		check("two uplinks", both)
		wan := r.wan
		wan.DefaultRoutes = nil
		r.host.SetInterfaces(wan, r.lte)
		check("wan has no default route", "lte dns 198.51.100.54")
		r.wan.DefaultRoutes = []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.9"))}
		r.host.SetInterfaces(r.wan, r.lte)
		check("wan has another gateway", strings.Replace(both, "192.0.2.1,", "192.0.2.9,", 1))
		r.apply(doc(0, 0))
		r.settle(30 * time.Second)
		topics := r.node.d.topics
		if shots := r.count(time.Minute); len(shots) > 0 || len(topics.ProbeOutcomes.All()) > 0 || r.probed(1) != "" ||
			len(topics.Uplinks.All()) > 0 || len(topics.UplinkRecords.All()) > 0 {
			t.Errorf("left of deleted networks: shots %v, probes %q, %d outcomes, %d choices, %d records", shots, r.probed(1),
				len(topics.ProbeOutcomes.All()), len(topics.Uplinks.All()), len(topics.UplinkRecords.All()))
		}
	})
}

// EBM-76: the targets and the method of probes can be configured.
func TestSeed_TargetsAndMethodsOfProbesCanBeConfigured(t *testing.T) {
	onUplinks(t, func(r *proberRig) {
		for config, want := range map[string]string{
			"method: icmp, target: '203.0.113.9,a.example'": "lte icmp 203.0.113.9, lte icmp a.example, wan arp 192.0.2.1, " +
				"wan icmp 203.0.113.9, wan icmp a.example",
			"method: tcp, target: 'a.example:443'": "lte tcp a.example:443, wan arp 192.0.2.1, wan tcp a.example:443",
			"method: http, target: 'https://a.example/up'": "lte http https://a.example/up, wan arp 192.0.2.1, " +
				"wan http https://a.example/up",
			"method: dns, target: 203.0.113.53": "lte dns 203.0.113.53, wan arp 192.0.2.1, wan dns 203.0.113.53",
		} {
			r.configure(1, "probe: {"+config+"}")
			r.settle(time.Second)
			if got := r.probed(1); got != want {
				t.Errorf("%s: probes %s, want %s", config, got, want)
			}
		}
		r.configure(1, "probe: {intervalMs: 5000, timeoutMs: 2000}")
		for id, n := range r.count(20 * time.Second) {
			if id.Timeout != 2*time.Second || n < 3 || n > 5 {
				t.Errorf("%v: %d shots in 20 s, want one each 5 s", id, n)
			}
		}
	})
}
