package scenario

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/nodeconf"
	"edgespan/platform/lab"
)

var (
	uplinkSeed = flag.Uint64("uplink-seed", 0, "seed of TestRandomUplinks; 0 for one of the clock")
	uplinkRuns = flag.Int("uplink-runs", 2, "runs of TestRandomUplinks, each with the next seed")
)

const (
	drawnEvery = 25 * time.Millisecond // how often each app sends a packet
	// slackTime is what a busy machine may add to the times of the probes.
	slackTime = 5 * time.Second
	// longestCalm bounds the wait for the last hold-downs of a history: those of ports that end later are not judged.
	longestCalm = 14 * time.Second
)

func TestDrawnUplinksAreValidAndTheSameForASeed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		h := drawUplinks(rand.New(rand.NewPCG(seed, 2)))
		if again := drawUplinks(rand.New(rand.NewPCG(seed, 2))); again.String() != h.String() {
			t.Errorf("seed %d draws different histories", seed)
		}
		for _, s := range append([]uplinkStep{{after: h.first}}, h.steps...) {
			if _, _, err := nodeconf.Read([]byte(s.after.doc())); err != nil {
				t.Fatalf("seed %d: %v:\n%s", seed, err, s.after.doc())
			}
		}
	}
}

// Whatever happens to the uplinks, the config, the daemon and its rules, the app of each network leaves, with each family,
// by an uplink that works for it if there is one that it may use, by none that is drained or costs more than needed,
// never by one of another network's, and never untranslated, but for a routed prefix. The packets of a known flow may
// stay on an uplink, and keep the rest.
func TestRandomUplinks(t *testing.T) {
	t.Parallel()
	first := cmp.Or(*uplinkSeed, uint64(time.Now().UnixNano())%1e9)
	for seed := first; seed < first+uint64(*uplinkRuns); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newUplinkJudge(t, seed).run()
		})
	}
}

// uplinkJudge runs one history, and knows which uplinks work.
type uplinkJudge struct {
	*exits
	seed     uint64
	history  uplinkHistory
	now      uplinkScene
	began    time.Time
	log      []string
	failures []int                     // by uplink: how often it was broken
	known    [maxDrawnNets][]time.Time // by network and uplink: when its present state began, for the daemon
	steady   time.Time                 // since when no probe is outstanding
	own6     []netip.Addr              // the IPv6 address of each app
}

func newUplinkJudge(t *testing.T, seed uint64) *uplinkJudge {
	t.Logf("again: -run TestRandomUplinks -uplink-runs 1 -uplink-seed %d", seed)
	h := drawUplinks(rand.New(rand.NewPCG(seed, 2)))
	if !hasIPv6() {
		t.Log("the kernel has no IPv6: no network has it")
		for i := range h.first.nets {
			h.first.nets[i].six = without6
		}
		for i := range h.steps {
			for n := range h.steps[i].after.nets {
				h.steps[i].after.nets[n].six = without6
			}
		}
	}
	apps := make([]string, len(h.first.nets))
	for i := range apps {
		apps[i] = drawnApp(i)
	}
	with6 := slices.Clone(apps)
	w := newWorldOf(t, lab.Options{Apps: apps, Uplinks: len(h.first.ports)})
	if slices.ContainsFunc(h.first.nets, func(n drawnNet) bool { return n.six != without6 }) {
		for n := range h.first.ports {
			w.provide6(n)
		}
	}
	w.start(h.first.doc())
	for i, ns := range apps {
		w.wait("ready", "ni/"+ni(i+1), "app/"+app(i+1))
		w.lease(ns)
	}
	j := &uplinkJudge{seed: seed, history: h, now: h.first, failures: make([]int, len(h.first.ports)), began: time.Now()}
	for i := range j.known {
		j.known[i] = make([]time.Time, len(h.first.ports))
	}
	j.own6 = make([]netip.Addr, len(apps))
	for i, n := range h.first.nets {
		if n.six != without6 {
			j.own6[i] = w.slaac(apps[i], subnet6(i+1))
		} else {
			with6[i] = ""
		}
	}
	j.exits = w.watchExitsOf(len(h.first.ports), drawnEvery, apps...)
	j.sendKnownFlows(drawnEvery, 0, apps...)
	j.send(drawnEvery, sixFlows, with6...)
	j.sendKnownFlows(drawnEvery, sixFlows, with6...)
	return j
}

func (j *uplinkJudge) run() {
	j.Helper()
	j.judge(uplinkStep{text: "begin", after: j.now})
	for _, s := range j.history.steps {
		<-time.After(s.pause)
		j.remain()
		j.judge(s)
	}
	calm := time.Until(j.lastHold())
	<-time.After(calm)
	j.remain()
	j.judge(uplinkStep{text: "calm", after: j.now})
	j.Logf("%d uplinks, %d networks, %d steps: %v", len(j.now.ports), len(j.now.nets), len(j.history.steps),
		time.Since(j.began).Round(time.Millisecond))
}

// judge carries out one step, and waits until the packets of each app leave as they must.
func (j *uplinkJudge) judge(s uplinkStep) {
	j.Helper()
	before, began := j.now, time.Now()
	j.log = append(j.log, fmt.Sprintf("%8v %s", began.Sub(j.began).Round(time.Millisecond), s.text))
	j.carryOut(s)
	j.now = s.after
	done := time.Now()
	j.settle(done)
	took := time.Since(done)
	j.log = append(j.log, fmt.Sprintf("%8s settled after %v", "", took.Round(time.Millisecond)))
	for _, x := range j.since(began) {
		net := x.net()
		if !j.isSource(x) {
			j.fail("a packet of %s left by %s with source %s, %v after the step began", x.stream(), uplinkLabels[x.uplink],
				x.from, x.at.Sub(began))
		}
		if !before.may(net, x.uplink) && !j.now.may(net, x.uplink) {
			j.fail("a packet of %s left by %s, which its network may not use, %v after the step began", x.stream(),
				uplinkLabels[x.uplink], x.at.Sub(began))
		}
	}
}

// isSource reports whether a packet has the source that it must have on its uplink: the node's address there, or with a
// routed prefix its own.
func (j *uplinkJudge) isSource(x exit) bool {
	switch {
	case !x.isSix():
		return x.from.String() == j.Provider(x.uplink).Node
	case j.now.nets[x.net()].six == routed6:
		return x.from == j.own6[x.net()]
	}
	return netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::/64", 99-x.uplink)).Contains(x.from)
}

// The network, counted from 0, and the family of a packet, and both as text.
func (x exit) net() int    { return int(x.app&^(knownFlow|sixFlows)) - 1 }
func (x exit) isSix() bool { return x.app&sixFlows != 0 }

func (x exit) stream() string {
	return fmt.Sprintf("app%d (IPv6: %v, of a known flow: %v)", x.net()+1, x.isSix(), x.app&knownFlow != 0)
}

// carryOut does what a step says, and notes what the daemon has to find out again.
func (j *uplinkJudge) carryOut(s uplinkStep) {
	j.Helper()
	switch s.kind {
	case breaks:
		j.failures[s.uplink]++
		j.breakUplink(s.uplink, s.fault)
	case repairs:
		j.repairUplink(s.uplink, s.fault)
		for net := range j.known {
			j.known[net][s.uplink] = time.Now()
		}
	case applies:
		j.apply(s.after.doc())
		if s.net >= 0 {
			j.relearn(s.net)
		}
	case kills:
		if err := j.node.Kill(); err != nil {
			j.Fatal(err)
		}
		j.restart()
		for net := range j.known {
			j.relearn(net)
		}
	case flushed:
		j.in("node", s.argv...)
	case drains:
		j.cli(s.argv...)
	}
}

// relearn notes that a network's outcomes begin anew: a port that failed may be held from its next answer on.
func (j *uplinkJudge) relearn(net int) {
	for uplink, n := range j.failures {
		if n > 0 {
			j.known[net][uplink] = time.Now()
		}
	}
}

// due returns when a network returns to an uplink that works, at the latest. An uplink that never failed is not held.
func (j *uplinkJudge) due(net, uplink int) time.Time {
	p := j.now.nets[net].probe
	if j.failures[uplink] == 0 {
		return time.Time{}
	}
	return j.known[net][uplink].Add(p.answersWithin() + p.heldFor(j.failures[uplink]))
}

// lastHold returns the end of the last hold-down that is judged.
func (j *uplinkJudge) lastHold() time.Time {
	var last time.Time
	for net := range j.now.nets {
		for uplink := range j.now.ports {
			if at := j.due(net, uplink); at.After(last) && time.Until(at) < longestCalm {
				last = at
			}
		}
	}
	return last
}

// settle waits until every app's packets leave as they must since a moment, which must come in time.
func (j *uplinkJudge) settle(since time.Time) {
	j.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for net, n := range j.now.nets {
		within := n.probe.failsWithin() + n.probe.answersWithin() + slackTime
		for _, six := range []bool{false, true} {
			for {
				why := j.wrong(net, six, since)
				if why == "" {
					break
				}
				if time.Since(since) > within {
					j.fail("IPv6: %v: %s, %v after the step: %v was due", six, why, time.Since(since).Round(time.Millisecond),
						within)
				}
				<-tick.C
			}
		}
	}
	if n := j.steadyFrom(since); n.After(j.steady) {
		j.steady = n
	}
}

// steadyFrom returns when every network knows what a step did.
func (j *uplinkJudge) steadyFrom(step time.Time) time.Time {
	var longest time.Duration
	for _, n := range j.now.nets {
		longest = max(longest, n.probe.failsWithin()+n.probe.answersWithin()+slackTime)
	}
	return step.Add(longest)
}

// wrong returns what is wrong with the last packets of a network's app since the step, "" if nothing is.
func (j *uplinkJudge) wrong(net int, six bool, step time.Time) string {
	limit, works, spared := j.limit(net, six, step)
	if !works || six && j.now.nets[net].six == without6 {
		return ""
	}
	const enough = 10
	var got []exit
	for _, x := range j.since(step) {
		if x.net() == net && x.isSix() == six && x.app&knownFlow == 0 {
			got = append(got, x)
		}
	}
	got = got[max(0, len(got)-enough):]
	if len(got) < enough || time.Since(got[len(got)-1].at) > time.Second {
		return fmt.Sprintf("no packets of app%d leave, though an uplink works", net+1)
	}
	for _, x := range got {
		switch p := j.now.ports[x.uplink]; {
		case p.faultOf(six) != "":
			return fmt.Sprintf("packets of app%d leave by %s, which has a fault (%s), though another works", net+1,
				uplinkLabels[x.uplink], p.fault)
		case !j.now.may(net, x.uplink):
			return fmt.Sprintf("packets of app%d leave by %s, which its network may not use", net+1, uplinkLabels[x.uplink])
		case p.drained && spared:
			return fmt.Sprintf("packets of app%d leave by %s, which is drained, though another works", net+1,
				uplinkLabels[x.uplink])
		case p.cost > limit:
			return fmt.Sprintf("packets of app%d leave by %s with cost %d, though one with cost %d works and is not held", net+1,
				uplinkLabels[x.uplink], p.cost, limit)
		}
	}
	return ""
}

// limit returns the most that the uplink of a network may cost: that of the cheapest one that works and was in no
// hold-down when the step was made. It reports whether any works, and one that is not drained, which is then preferred.
func (j *uplinkJudge) limit(net int, six bool, step time.Time) (cost int, works, spared bool) {
	for uplink, p := range j.now.ports {
		if p.faultOf(six) == "" && j.now.may(net, uplink) {
			works, spared = true, spared || !p.drained
		}
	}
	cost = 1 << 20
	for uplink, p := range j.now.ports {
		if p.faultOf(six) == "" && j.now.may(net, uplink) && p.drained != spared && !j.due(net, uplink).After(step) {
			cost = min(cost, p.cost)
		}
	}
	return cost, works, spared
}

// remain demands that no packet left by an uplink with a fault, once every network knew what all steps did.
func (j *uplinkJudge) remain() {
	j.Helper()
	for _, x := range j.since(j.steady) {
		p := j.now.ports[x.uplink]
		if x.app&knownFlow != 0 {
			continue
		}
		if _, works, _ := j.limit(x.net(), x.isSix(), j.steady); works && p.faultOf(x.isSix()) != "" {
			j.fail("a packet of %s left by %s (%s) long after the step", x.stream(), uplinkLabels[x.uplink], p.fault)
		}
	}
}

// fail ends the run and prints what led to the failure.
func (j *uplinkJudge) fail(format string, args ...any) {
	j.Helper()
	for i := range j.now.nets {
		j.Logf("%s", j.cli("explain", "ni/"+ni(i+1)))
	}
	j.Logf("the events are\n%s\nthe config is\n%s", j.cli("events"), j.now.doc())
	j.Fatalf("seed %d: %s\nthe history is\n%swhat has happened:\n%s", j.seed, fmt.Sprintf(format, args...), j.history,
		strings.Join(j.log, "\n"))
}
