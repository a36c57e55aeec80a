package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"edgespan/integration/soak/model"
)

// How long a node may take without faults, on real hardware.
const (
	settleLimit = 10 * time.Second // until what is observed equals what is desired
	reachLimit  = 20 * time.Second // until apps have leases and reach what they may
)

func (r *run) limit(d time.Duration) time.Duration { return time.Duration(float64(d) * r.slow) }

// quiet ends all faults and judges: every node settles, everything that may be reached is, nothing foreign has changed,
// and no daemon crashed or missed its watchdog.
func (r *run) quiet(ctx context.Context) error {
	if err := r.endFaults(ctx, true); err != nil {
		return err
	}
	for _, s := range r.segments {
		s.heal()
	}
	begin := time.Now()
	var wg sync.WaitGroup
	for _, m := range r.machines {
		wg.Go(func() { r.settle(ctx, m, begin) })
	}
	wg.Wait()
	if err := r.pause(ctx, inForce); err != nil {
		return err
	}
	r.judge.settled()
	r.reach(ctx)
	for _, m := range r.machines {
		r.inspect(ctx, m)
	}
	r.say("quiet: settled, %d frames on the wire and %d beacons at apps judged, %d violations", r.judge.onWire,
		r.judge.atApps, len(r.judge.violations))
	return ctx.Err()
}

// settle waits until a node observes what it desires and the controller has nothing more for it.
func (r *run) settle(ctx context.Context, m *machine, begin time.Time) {
	wrong := "not looked at"
	for late := false; ctx.Err() == nil; time.Sleep(300 * time.Millisecond) {
		if wrong = r.unsettled(ctx, m); wrong == "" {
			break
		}
		if !late && time.Since(begin) > r.limit(settleLimit) {
			late = true
			r.judge.violated(nodeName(m.node), "observed equals desired", fmt.Sprintf("after %v: %s",
				r.limit(settleLimit), wrong))
		}
		if time.Since(begin) > 3*r.limit(settleLimit) {
			break
		}
	}
	r.add(m.node, "convergence", "s", false, time.Since(begin).Seconds())
}

// unsettled says why a node is not settled, or "".
func (r *run) unsettled(ctx context.Context, m *machine) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := r.lab.operator(ctx, "", "nodes", "list", "-o", "json")
	if err != nil {
		return err.Error()
	}
	var nodes []struct {
		Name, State, Why string
		Online           bool
	}
	if err := json.Unmarshal([]byte(out), &nodes); err != nil {
		return err.Error()
	}
	for _, n := range nodes {
		if n.Name == nodeName(m.node) && (!n.Online || n.State != "InSync") {
			return fmt.Sprintf("online %v, %s: %s", n.Online, n.State, n.Why)
		}
	}
	res, err := m.run(ctx, "sh", "-c", "edgespan diff && edgespan get pending -o name")
	if err != nil {
		return err.Error()
	}
	if res.Code != 0 || strings.TrimSpace(strings.TrimPrefix(res.Out, nothingDiffers)) != "" {
		return fmt.Sprintf("exit code %d: %s", res.Code, res.Out)
	}
	return ""
}

// nothingDiffers is what edgespan diff prints where nothing does.
const nothingDiffers = "nothing differs"

// reach waits until each app reaches what it may: beacons of the last seconds are answered.
func (r *run) reach(ctx context.Context) {
	f := r.plan.Fleet()
	begin := time.Now()
	var missing []string
	for ctx.Err() == nil && time.Since(begin) < r.limit(reachLimit) {
		r.aim()
		r.reset()
		time.Sleep(2*tellEvery + time.Second)
		if missing = r.missing(f); len(missing) == 0 {
			break
		}
	}
	for _, text := range missing {
		r.judge.violated("fleet", "what is allowed passes", fmt.Sprintf("%s, after %v", text, r.limit(reachLimit)))
	}
	r.add(0, "time until all that is allowed passes", "s", false, time.Since(begin).Seconds())
}

func (r *run) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.apps {
		a.mu.Lock()
		clear(a.sent)
		clear(a.echoed)
		a.mu.Unlock()
	}
}

// missing names what a fleet's apps may reach and do not.
func (r *run) missing(f model.Fleet) []string {
	var out []string
	for n := 1; n <= len(f); n++ {
		for _, app := range slices.Sorted(maps.Keys(f.Node(n).Apps)) {
			from := model.Endpoint{Node: n, App: app}
			for _, to := range append(endpoints(f), model.Outside) {
				for _, port := range model.Beacons {
					if f.MayReach(from, to, port) && r.echoes(from, to, port) == 0 {
						out = append(out, fmt.Sprintf("app %v (%v) does not reach %v (%v) at port %d", from, r.address(from), to,
							r.address(to), port))
					}
				}
			}
		}
	}
	return out
}

func endpoints(f model.Fleet) []model.Endpoint {
	var out []model.Endpoint
	for n := 1; n <= len(f); n++ {
		for _, app := range slices.Sorted(maps.Keys(f.Node(n).Apps)) {
			out = append(out, model.Endpoint{Node: n, App: app})
		}
	}
	return out
}

func (r *run) app(e model.Endpoint) *appLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.apps[e]
}

func (r *run) echoes(from, to model.Endpoint, port int) int {
	a := r.app(from)
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.echoed[fmt.Sprintf("%v:%d", to, port)]
}

func (r *run) address(e model.Endpoint) string {
	if e == model.Outside {
		return model.ServerAddr
	}
	if a := r.app(e); a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.addr.IsValid() {
			return a.addr.String()
		}
	}
	return "no address"
}

// targetsOf are the beacons' destinations of an app: all others that have an address, and the server outside.
func targetsOf(others []*appLine) []target {
	var out []target
	add := func(e model.Endpoint, a netip.Addr) {
		for _, port := range model.Beacons {
			out = append(out, target{e.String(), netip.AddrPortFrom(a, uint16(port))}) // #nosec G115 -- a constant
		}
	}
	for _, b := range others {
		b.mu.Lock()
		if b.addr.IsValid() {
			add(b.endpoint, b.addr)
		}
		b.mu.Unlock()
	}
	add(model.Outside, netip.MustParseAddr(model.ServerAddr))
	return out
}

// bad are lines of a node's journal that must not be there.
const bad = `edgespan.*(panic:|fatal error:|DATA RACE)|edgespan.service: (Watchdog timeout|Failed with result 'watchdog')`

// inspect judges what other programs own, and what the journal says.
func (r *run) inspect(ctx context.Context, m *machine) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	foreign, err := m.sh(ctx, "sh "+guestDir+"/foreign.sh")
	if err != nil && !errors.Is(err, errCut) {
		r.judge.violated(nodeName(m.node), "nothing foreign is touched", err.Error())
	} else if was := r.foreign[m.node-1]; foreign != was {
		r.judge.violated(nodeName(m.node), "nothing foreign is touched", fmt.Sprintf("%q was %q", foreign, was))
	}
	res, err := m.run(ctx, "sh", "-c", "journalctl --no-pager -q | grep -E '"+strings.ReplaceAll(bad, "'", `'\''`)+"' | head -3")
	if err == nil && res.Out != "" {
		r.judge.violated(nodeName(m.node), "the watchdog is fed, nothing crashes", res.Out)
	}
}
