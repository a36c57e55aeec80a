package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst/netstate"
)

// twoUplinks gives the node the uplinks wan and lte, with network 1 by either and network 2 by wan alone, and returns a
// function that makes the far side of a port dead.
func (r *rig) twoUplinks() (kill func(label string)) {
	r.Helper()
	dead := r.setUplinks()
	r.apply(twoPorts())
	r.ready(5*time.Second, "ni/"+niID(1), "ni/"+niID(2))
	r.settle(10 * time.Second)
	return func(label string) { dead.Store(label, silent) }
}

func twoPorts() string {
	two := withLTE(doc(2, 0))
	return strings.Replace(two, "port: wan", "port: uplink", 1)
}

func (r *rig) drain(label string, d time.Duration) time.Time {
	r.Helper()
	until, err := r.node.Drain(context.Background(), label, nodeapi.DrainOptions{For: d, By: "eve"})
	if err != nil {
		r.Fatal(err)
	}
	r.settle(time.Second)
	return until
}

func (r *rig) undrain(label string) bool {
	r.Helper()
	was, err := r.node.Undrain(context.Background(), label)
	if err != nil {
		r.Fatal(err)
	}
	r.settle(time.Second)
	return was
}

func (r *rig) uses(when, port string) {
	r.Helper()
	if s, _ := r.node.d.topics.NetworkStatus.Get("", niID(1)); s.Port != port {
		choice, _ := r.node.d.topics.Uplinks.Get("", niID(1))
		r.Errorf("%s: by %q, want %q: %+v", when, s.Port, port, choice)
	}
}

// port returns the status of a port as `get` shows it.
func (r *rig) port(label string) nodeapi.PortStatus {
	r.Helper()
	items, err := r.node.List(context.Background(), "port")
	if err != nil {
		r.Fatal(err)
	}
	at := slices.IndexFunc(items, func(x nodeapi.Resource) bool { return x.ID == label })
	if at < 0 {
		r.Fatalf("no port %s in %+v", label, items)
	}
	return items[at].Status.(nodeapi.PortStatus)
}

// uplinkEvents returns the texts of a port's events of kind uplink since the daemon's start.
func (r *rig) uplinkEvents(label string) (texts []string) {
	r.Helper()
	q := nodeapi.EventQuery{Of: "port/" + label, Kind: nodeapi.EventUplink}
	if err := r.node.Events(context.Background(), q, func(e nodeapi.Event) error {
		texts = append(texts, e.Text)
		return nil
	}); err != nil {
		r.Fatal(err)
	}
	return texts
}

func TestADrainKeepsAPortFreeOfNetworks(t *testing.T) {
	onRig(t, func(r *rig) {
		kill := r.twoUplinks()
		r.uses("both work", "wan")
		until := r.drain("wan", time.Hour)
		r.uses("wan is drained", "lte")
		if s := r.port("wan"); !s.Drained || !s.DrainedUntil.Equal(until) || s.Probe != "drained" ||
			fmt.Sprint(s.UsedBy) != "[net2]" {
			t.Errorf("wan is shown as %+v", s)
		}
		if s := r.port("lte"); s.Probe != "works" || fmt.Sprint(s.UsedBy) != "[net1]" || s.LatencyMs <= 0 || s.Drained {
			t.Errorf("lte is shown as %+v", s)
		}
		r.drain("wan", 0)
		r.drain("wan", 0) // nothing new
		r.settle(2 * time.Hour)
		r.uses("the drain has no end any more", "lte")
		found, err := r.node.Doctor(context.Background())
		if at := slices.IndexFunc(found, func(x nodeapi.Finding) bool { return x.Check == "drains" }); err != nil || at < 0 ||
			found[at].Fix != "edgespan port undrain wan" {
			t.Errorf("the doctor finds %+v, %v", found, err)
		}
		if !r.undrain("wan") || r.undrain("wan") {
			t.Error("wan was not drained, or still is")
		}
		r.uses("it is undrained", "wan")
		want := []string{"drained until " + until.UTC().Format(time.RFC3339) + ", by eve",
			"drained until it is undrained, by eve", "undrained"}
		if got := r.uplinkEvents("wan"); !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		if got := r.uplinkEvents("lte"); len(got) > 0 {
			t.Errorf("events of lte: %q", got)
		}
		r.drain("wan", time.Hour)
		kill("lte")
		r.settle(5 * time.Second)
		r.uses("the other port is dead", "wan")
		for _, ask := range []func() error{
			func() error {
				_, err := r.node.Drain(t.Context(), "dsl", nodeapi.DrainOptions{})
				return err
			},
			func() error { _, err := r.node.Undrain(t.Context(), "dsl"); return err },
			func() error { _, err := r.node.Explain(t.Context(), "port", "dsl"); return err },
		} {
			if err := ask(); !errors.Is(err, rest.ErrNotFound) || !strings.HasSuffix(err.Error(), "the ports are lte, wan") {
				t.Errorf("an unknown port: %v", err)
			}
		}
	})
}

func TestADrainOutlastsRestartsAndEndsByItself(t *testing.T) {
	onRig(t, func(r *rig) {
		r.twoUplinks()
		until := r.drain("wan", 30*time.Minute)
		r.drain("lte", 0)
		restart := func() {
			r.stop()
			r.start()
			r.ready(5*time.Second, "ni/"+niID(1))
		}
		restart()
		if s := r.port("wan"); !s.Drained || !s.DrainedUntil.Equal(until) {
			t.Errorf("after a restart wan is %+v", s)
		}
		if s := r.port("lte"); !s.Drained || !s.DrainedUntil.IsZero() {
			t.Errorf("after a restart lte is %+v", s)
		}
		r.undrain("lte")
		r.settle(20 * time.Second) // an undrained port needs no hold-down
		r.uses("after a restart", "lte")
		r.settle(time.Until(until) - time.Second)
		r.uses("before its end", "lte")
		r.settle(3 * time.Second)
		r.uses("after its end", "wan")
		if s := r.port("wan"); s.Drained {
			t.Errorf("after its end wan is %+v", s)
		}
		if got := r.uplinkEvents("wan"); !slices.Equal(got, []string{"undrained: its time is over"}) {
			t.Errorf("events %q", got)
		}
		r.drain("wan", time.Minute)
		r.stop() // for 40 s, by the fake clock
		time.Sleep(time.Minute)
		r.start()
		if n := len(r.node.d.topics.Drains.List("")); n > 0 {
			t.Errorf("%d drains whose time was over before the start", n)
		}
	})
}

// The clock that people set has no part in the end of a drain: here it runs forward by a minute in each minute.
func TestADrainEndsByTheUptimeOfTheMachine(t *testing.T) {
	onRig(t, func(r *rig) {
		began := time.Now()
		var ahead atomic.Int64 // ns by which the clock is set forward
		r.machine = "m"
		r.change = func(o *Options) {
			o.Uptime = func() time.Duration { return (time.Since(began) - time.Duration(ahead.Load())) / 2 }
		}
		r.stop()
		r.start()
		r.twoUplinks()
		until := r.drain("wan", 30*time.Minute)
		r.settle(35 * time.Minute)
		r.uses("its end by the clock is over", "lte")
		if s := r.port("wan"); !s.DrainedUntil.After(until) {
			t.Errorf("the end is %v, as before the clock was set", s.DrainedUntil)
		}
		r.stop()
		r.start()
		r.ready(5*time.Second, "ni/"+niID(1))
		r.settle(20 * time.Minute)
		r.uses("after a restart", "lte")
		ahead.Store(-int64(10 * time.Minute)) // the clock is set back
		r.settle(2 * time.Second)
		r.uses("its end by the uptime is over", "wan")
	})
}

func TestAPortThatIsRemovedLosesItsDrain(t *testing.T) {
	onRig(t, func(r *rig) {
		r.twoUplinks()
		r.drain("lte", 0)
		r.apply(doc(2, 0))
		r.settle(2 * time.Second)
		if got := r.uplinkEvents("lte"); len(got) != 2 || got[1] != "undrained: no longer a port" {
			t.Errorf("events %q", got)
		}
		r.apply(twoPorts())
		r.settle(2 * time.Second)
		if s := r.port("lte"); s.Drained {
			t.Errorf("configured again, lte is %+v", s)
		}
	})
}

// A switch network uses the port in its bridge; one that is not activated uses none.
func TestWhoUsesAPort(t *testing.T) {
	onRig(t, func(r *rig) {
		r.host.SetLink("lan0", true)
		r.host.SetInterfaces(netstate.Interface{Name: "uplink0", Up: true, MTU: 1500,
			Addresses:     []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")},
			DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.1"))}},
			netstate.Interface{Name: "lan0", Up: true, MTU: 1500})
		lan := strings.Replace(doc(2, 0), "networkInstances:\n", "  lan: {ifName: lan0}\nnetworkInstances:\n  "+niID(3)+
			": {displayName: hall, type: switch, port: lan}\n", 1)
		r.apply(strings.Replace(lan, "net2,", "net2, activate: false,", 1))
		r.ready(5*time.Second, "ni/"+niID(1), "ni/"+niID(2), "ni/"+niID(3))
		r.settle(time.Second)
		for label, want := range map[string]string{"wan": "works [net1]", "lan": " [hall]"} {
			if s := r.port(label); fmt.Sprint(s.Probe, " ", s.UsedBy) != want {
				t.Errorf("%s is %q of %v, want %q", label, s.Probe, s.UsedBy, want)
			}
		}
		if x := r.explain("port", "lan"); x.Summary != "ready: up without address, used by 1 of 1 networks that may use it" {
			t.Errorf("%q", x.Summary)
		}
		if x := r.explain("ni", niID(3)); len(x.Uplinks) > 0 {
			t.Errorf("the choice of a switch network: %+v", x.Uplinks)
		}
	})
}

func TestExplainSaysWhyANetworkUsesAPort(t *testing.T) {
	onRig(t, func(r *rig) {
		kill := r.twoUplinks()
		kill("wan")
		r.settle(15 * time.Second)
		r.uses("the far side of wan is dead", "lte")
		x := r.explain("ni", niID(1))
		if len(x.Uplinks) != 1 {
			t.Fatalf("%+v", x)
		}
		u := x.Uplinks[0]
		const why = "lte: works; wan: no target answers (dns 198.51.100.53: no answer)"
		if !u.Own || u.Selector != "uplink" || u.Port != "lte" || u.Why != why || len(u.Ports) != 2 ||
			time.Since(u.Since) > 14*time.Second || time.Since(u.Since) < 12*time.Second {
			t.Errorf("%+v", u)
		}
		if w := u.Ports[1]; w.Port != "wan" || w.Class != "no target answers" || w.Why != "dns 198.51.100.53: no answer" ||
			!w.Since.Equal(u.Since) || w.Loss < 30 {
			t.Errorf("%+v", w)
		}
		p := r.explain("port", "wan")
		if !p.Ready || p.Name != "uplink0" || p.Summary !=
			"ready: up with 192.0.2.2/24 via 192.0.2.1, used by 1 of 2 networks that may use it" || p.Port == nil {
			t.Fatalf("%+v", p)
		}
		var probes []string
		for _, x := range p.Port.Probes {
			var by []string
			for _, n := range x.Networks {
				by = append(by, n.String())
			}
			probes = append(probes, fmt.Sprintln(x.Method, x.Target, x.State, x.LastError, by))
		}
		// Network 2 has no other port, so its probes are rarer: they are others.
		if want := []string{"arp 192.0.2.1 answers  [net2]\n", "arp 192.0.2.1 answers  [net1]\n",
			"dns 198.51.100.53 fails no answer [net2]\n", "dns 198.51.100.53 fails no answer [net1]\n"}; !slices.Equal(probes,
			want) {
			t.Errorf("probes %q, want %q", probes, want)
		}
		if n := p.Port.Networks; len(n) != 2 || n[0].Uses || n[0].Instead != "lte" || n[0].Failed != 1 || n[0].Score.Why == "" ||
			!n[1].Uses || n[1].Instead != "" || n[1].Selector != "wan" {
			t.Errorf("networks %+v", n)
		}
		r.host.SetInterfaces(netstate.Interface{Name: "ppp0", Up: true, MTU: 1492})
		r.settle(time.Second)
		if p := r.explain("port", "wan"); p.Ready || !strings.HasPrefix(p.Summary, "not ready: missing") ||
			leaf(p).Text != "no interface uplink0" || len(p.Port.Probes) > 0 {
			t.Errorf("%+v", p)
		}
	})
}

// A watcher of ports learns of a drain and of a class that changes, and not of each measurement.
func TestAWatcherLearnsHowPortsAreJudged(t *testing.T) {
	onRig(t, func(r *rig) {
		kill := r.twoUplinks()
		ctx, cancel := context.WithCancel(context.Background())
		var mu sync.Mutex
		var seen []string
		ended := make(chan error, 1)
		go func() {
			ended <- r.node.Watch(ctx, []string{"port"}, func(o nodeapi.Observed) error {
				mu.Lock()
				defer mu.Unlock()
				if o.Change == nodeapi.Modified {
					s := o.Object.Status.(nodeapi.PortStatus)
					seen = append(seen, fmt.Sprint(o.Object.ID, " ", s.Probe, " ", s.UsedBy, " ", s.Drained))
				}
				return nil
			})
		}()
		r.settle(10 * time.Minute)
		kill("lte")
		r.settle(time.Minute)
		r.drain("wan", 0)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"lte no target answers [] false", "wan drained [net1 net2] true"}; !slices.Equal(seen, want) {
			t.Errorf("seen %q, want %q", seen, want)
		}
	})
}
