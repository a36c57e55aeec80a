package field

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"edgespan/integration/soak/guest"
	"edgespan/integration/soak/model"
)

// How long a node may take without faults, on real hardware.
const (
	syncLimit   = time.Minute      // until the controller has pushed, in stages; a node that was cut off tries seldom
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
	r.referee.settled()
	r.reach(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, m := range r.machines {
		r.inspect(ctx, m)
	}
	for _, line := range r.lab.crashes() {
		r.referee.violated("controller", "nothing crashes", line)
	}
	frames, beacons, _, violations := r.referee.seen()
	r.say("quiet: settled, %d frames on the wire and %d beacons at apps judged, %d violations", frames, beacons,
		len(violations))
	return ctx.Err()
}

// settle waits until the controller has nothing more for a node, and then until the node observes what it desires.
func (r *run) settle(ctx context.Context, m *machine, begin time.Time) {
	r.within(ctx, m, syncLimit, "the fleet is in sync", r.outOfSync)
	last := time.Now()
	r.within(ctx, m, settleLimit, "observed equals desired", r.unsettled)
	r.add(m.node, "convergence", "s", false, time.Since(begin).Seconds())
	r.add(m.node, "convergence once in sync", "s", false, time.Since(last).Seconds())
	// What a full disk refused is tried again each 10 s.
	r.within(ctx, m, 2*settleLimit, "a restart would lose nothing", r.unlikeJournal)
}

// within repeats a check until it finds nothing wrong. After its limit this is a violation, and after three times as
// long it is given up.
func (r *run) within(ctx context.Context, m *machine, limit time.Duration, invariant string,
	check func(context.Context, *machine) string,
) {
	limit = r.limit(limit)
	for begin, late := time.Now(), false; ctx.Err() == nil; time.Sleep(r.limit(300 * time.Millisecond)) {
		short, cancel := context.WithTimeout(ctx, time.Minute)
		wrong := check(short, m)
		cancel()
		took := time.Since(begin)
		if wrong == "" || took > 3*limit {
			return
		}
		if !late && took > limit {
			late = true
			r.referee.violated(nodeName(m.node), invariant, fmt.Sprintf("after %v: %s", limit, wrong))
		}
	}
}

// outOfSync says what the controller still has to do for a node, or "".
func (r *run) outOfSync(ctx context.Context, m *machine) string {
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
		if n.Name == nodeName(m.node) {
			if n.Online && n.State == "InSync" {
				return ""
			}
			return fmt.Sprintf("online %v, %s: %s", n.Online, n.State, n.Why)
		}
	}
	return "the controller does not know it"
}

// unsettled says what a node has not done yet, or "".
func (r *run) unsettled(ctx context.Context, m *machine) string {
	res, err := m.run(ctx, "sh", "-c",
		"edgespan diff >/run/soak-diff 2>&1 || { cat /run/soak-diff; exit 9; }; "+
			"edgespan get app 2>/dev/null | grep -w pending")
	if err != nil {
		return err.Error()
	}
	if res.Code != 1 || res.Out != "" { // 1: no app is pending
		return fmt.Sprintf("exit code %d: %s", res.Code, res.Out)
	}
	return ""
}

// reach waits until each app reaches what it may: beacons of the last seconds are answered.
func (r *run) reach(ctx context.Context) {
	f := r.plan.Fleet()
	begin := time.Now()
	var missing []string
	for ctx.Err() == nil && time.Since(begin) < r.limit(reachLimit) {
		r.aim(0)
		r.reset(f)
		time.Sleep(2*guest.TellEvery + r.limit(time.Second))
		if missing = r.missing(f); len(missing) == 0 {
			break
		}
	}
	if ctx.Err() != nil {
		return
	}
	for _, text := range missing {
		r.referee.violated("fleet", "what may pass does", fmt.Sprintf("%s, after %v", text, r.limit(reachLimit)))
	}
	r.add(0, "time until all that may pass does", "s", false, time.Since(begin).Seconds())
}

// reset forgets what the apps of a configuration have told.
func (r *run) reset(f model.Fleet) {
	for _, e := range endpoints(f) {
		a := r.app(e)
		a.mu.Lock()
		clear(a.sent)
		clear(a.echoed)
		clear(a.heard)
		a.mu.Unlock()
		r.referee.forgetLeft(e)
		if out := r.line(model.Outside); out != nil {
			out.mu.Lock()
			for _, port := range model.Beacons {
				delete(out.heard, wayOf(e.String(), port))
			}
			out.mu.Unlock()
		}
	}
}

// missing names what a fleet's apps may reach and do not, and what of it no judge has seen.
func (r *run) missing(f model.Fleet) []string {
	var out []string
	eachWay(f, func(from, to model.Endpoint, port int) {
		if _, echoed := r.told(from, to, port); echoed == 0 {
			out = append(out, fmt.Sprintf("app %v (%v) does not reach %v (%v) at port %d",
				from, r.address(from), to, r.address(to), port))
		} else if text := r.deaf(from, to, port); text != "" {
			out = append(out, text)
		}
	})
	return out
}

// eachWay calls do for each way that a beacon may take.
func eachWay(f model.Fleet, do func(from, to model.Endpoint, port int)) {
	all := endpoints(f)
	for _, from := range all {
		for _, to := range append(all, model.Outside) {
			for _, port := range model.Beacons {
				if f.MayReach(from, to, port) {
					do(from, to, port)
				}
			}
		}
	}
}

func endpoints(f model.Fleet) []model.Endpoint {
	var out []model.Endpoint
	for n := 1; n <= len(f); n++ {
		for _, app := range slices.Sorted(maps.Keys(f.Node(n).Apps)) {
			out = append(out, model.Endpoint{Node: n, App: app})
		}
		if f.Node(n).Joined {
			out = append(out, model.Endpoint{Node: n, App: model.ClusterApp})
		}
	}
	return out
}

func (r *run) app(e model.Endpoint) *appLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.apps[e]
}

// told returns how many beacons an app has sent one way since the last reset, and how many were answered.
func (r *run) told(from, to model.Endpoint, port int) (sent, echoed int) {
	a := r.app(from)
	if a == nil {
		return 0, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := wayOf(to.String(), port)
	return a.sent[key], a.echoed[key]
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
func targetsOf(others []*appLine) []guest.Target {
	var out []guest.Target
	add := func(e model.Endpoint, a netip.Addr) {
		for _, port := range model.Beacons {
			at := netip.AddrPortFrom(a, uint16(port)) // #nosec G115 -- a constant
			out = append(out, guest.Target{To: e.String(), Addr: at})
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
