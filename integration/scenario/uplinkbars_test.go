package scenario

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// runsOf returns the number of runs that -benchtime asks for.
func runsOf(b *testing.B) (n int) {
	for b.Loop() {
		n++
	}
	b.ReportMetric(0, "ns/op") // everything else that the benchmark does
	return n
}

// quantiles reports a distribution in a unit: of 100 values, p99 is the second largest.
func quantiles(b *testing.B, unit string, values []float64) {
	b.Helper()
	if b.Failed() {
		return
	}
	slices.Sort(values)
	for q, name := range map[float64]string{0.5: "p50-", 0.9: "p90-", 0.99: "p99-", 1: "max-"} {
		b.ReportMetric(values[int(math.Ceil(q*float64(len(values))))-1], name+unit)
	}
	b.Logf("%d runs: %v %s", len(values), values, unit)
}

// lanes is how many runs share a node: each has a network with two uplinks of its own.
const lanes = 2

// laneWorld is a node with a network, an app and two uplinks for each lane.
type laneWorld struct {
	*exits
	settings string // of the networks
	mu       sync.Mutex
	runs     [lanes]int
}

func laneApp(lane int) string { return []string{"web", "client"}[lane] }

// The uplinks of a lane: the cheaper one is in use while it works.
func cheap(lane int) int  { return 2 * lane }
func dearer(lane int) int { return 2*lane + 1 }

func newLaneWorld(b *testing.B, settings string) *laneWorld {
	b.Helper()
	w := newWorldOf(b, lab.Options{Apps: []string{laneApp(0), laneApp(1)}, Uplinks: 2 * lanes})
	w.echoes(2*lanes, lab.WebAddr)
	l := &laneWorld{exits: &exits{world: w}, settings: settings}
	w.start(l.doc())
	for lane := range lanes {
		w.wait("ready", "ni/"+ni(lane+1), "app/"+app(lane+1))
		w.lease(laneApp(lane))
	}
	l.exits = w.watchExitsOf(2*lanes, exitEvery, laneApp(0), laneApp(1))
	return l
}

// doc returns the config. Ports have a new label in each run.
func (l *laneWorld) doc() string {
	var ports, nets, apps strings.Builder
	for lane, run := range l.runs {
		for i, name := range []string{"wan", "lte"} {
			fmt.Fprintf(&ports, "  %s-%d-%d: {ifName: %s, labels: lane%d, uplink: true, cost: %d, dnsServers: %s}\n", name, lane,
				run, l.Provider(cheap(lane)+i).Dev, lane, 10*i, lab.DNSAddr)
		}
		nets.WriteString(strings.Replace(network(lane+1, l.settings), "port: wan", fmt.Sprint("port: lane", lane), 1))
		apps.WriteString(onNet(lane+1, lane+1, laneApp(lane), allowAll))
	}
	return "ports:\n" + ports.String() + "networkInstances:\n" + nets.String() + "appNetworks:\n" + apps.String()
}

// begin makes a lane forget what its uplinks did, by new labels, and waits until it uses the cheaper one.
func (l *laneWorld) begin(lane int) {
	l.Helper()
	l.mu.Lock()
	l.runs[lane]++
	l.apply(l.doc())
	l.mu.Unlock()
	l.connects(lane, cheap(lane), 20*time.Second)
	l.wait("ready", "ni/"+ni(lane+1))
}

// connects waits until a new connection of a lane's app leaves by an uplink, and returns how long that took. Packets of
// watchExits don't tell: with `flows: drain`, one with the ports of an earlier one belongs to that one's flow.
func (l *laneWorld) connects(lane, uplink int, within time.Duration) time.Duration {
	l.Helper()
	began := time.Now()
	l.eventuallyIn(within, "connections by "+l.Provider(uplink).Dev, func() bool {
		f, err := l.openFlowOf(laneApp(lane), lab.WebAddr)
		if err == nil {
			_ = f.Close()
		}
		return err == nil && f.uplink == uplink
	})
	return time.Since(began)
}

// inLanes makes so many runs, in several lanes of several nodes at once, and returns their results.
func inLanes[T any](b *testing.B, runs int, settings string, run func(l *laneWorld, lane int) T) (results []T) {
	b.Helper()
	var mu sync.Mutex
	var ended sync.WaitGroup
	var begun atomic.Int64
	for range min(benchWorlds, (runs+lanes-1)/lanes) {
		l := newLaneWorld(b, settings)
		for lane := range lanes {
			ended.Go(func() {
				for begun.Add(1) <= int64(runs) && !b.Failed() {
					x := run(l, lane)
					mu.Lock()
					results = append(results, x)
					mu.Unlock()
				}
			})
		}
	}
	ended.Wait()
	return results
}

// BenchmarkUplinkToggles counts the switches while the uplink in use fails and comes back ten times in 3 s, by turns
// its link and its far side, and in 5 s of the hold-down after that.
func BenchmarkUplinkToggles(b *testing.B) {
	var turn atomic.Int64
	quantiles(b, "switches", inLanes(b, runsOf(b), "", func(l *laneWorld, lane int) float64 {
		l.begin(lane)
		fault := []lab.Fault{lab.LinkDown, lab.FarSideDead}[turn.Add(1)%2]
		pace := time.NewTicker(150 * time.Millisecond)
		defer pace.Stop()
		began := time.Now()
		for range 10 {
			l.breakUplink(cheap(lane), fault)
			<-pace.C
			l.repairUplink(cheap(lane), fault)
			<-pace.C
		}
		toggled := time.Since(began)
		<-time.After(5 * time.Second)
		got := l.switchesOf(byte(lane+1), began)
		if toggled > 4*time.Second || len(got) > 1 {
			l.Logf("10 times %s in %v: %v", fault, toggled, got)
		}
		return float64(len(got))
	}))
}

// BenchmarkUplinkReturnDrains measures from the repair of the cheaper uplink until a network returns to it, with default
// settings, and how many of 5 connections that stay on the other one, by `flows: drain`, are broken by the return.
func BenchmarkUplinkReturnDrains(b *testing.B) {
	var broken atomic.Int64
	took := inLanes(b, runsOf(b), "    flows: drain\n", func(l *laneWorld, lane int) time.Duration {
		l.begin(lane)
		l.breakUplink(cheap(lane), lab.LinkDown)
		l.connects(lane, dearer(lane), 20*time.Second)
		l.wait("ready", "ni/"+ni(lane+1))
		var flows []*tcpFlow
		for range 5 {
			f, err := l.openFlowOf(laneApp(lane), lab.WebAddr)
			if err != nil || f.uplink != dearer(lane) {
				l.Fatalf("a connection by the other uplink: %v", err)
			}
			defer f.Close()
			l.lives(f, "before the return")
			flows = append(flows, f)
		}
		l.repairUplink(cheap(lane), lab.LinkDown)
		back := l.connects(lane, cheap(lane), 30*time.Second)
		l.wait("ready", "ni/"+ni(lane+1))
		for _, f := range flows {
			if err := f.round(10 * time.Second); err != nil {
				broken.Add(1)
				l.Logf("a connection after the return: %v", err)
			}
		}
		return back
	})
	distribution(b, took)
	b.ReportMetric(float64(broken.Load()), "broken")
}

// perWorld is how many networks share two impaired uplinks. Each has probes of its own, by intervals that differ by a
// thousandth, which are lost and late by themselves.
const perWorld = 25

// BenchmarkUplinkImpaired counts the switches of networks in 90 s of loss and jitter on both of their uplinks.
func BenchmarkUplinkImpaired(b *testing.B) {
	runs := runsOf(b)
	var mu sync.Mutex
	var ended sync.WaitGroup
	var got []float64
	for left := runs; left > 0; left -= perWorld {
		ended.Go(func() {
			for _, n := range impaired(b, min(left, perWorld), 90*time.Second) {
				mu.Lock()
				got = append(got, float64(n))
				mu.Unlock()
			}
		})
	}
	ended.Wait()
	quantiles(b, "switches", got)
}
