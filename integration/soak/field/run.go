package field

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"edgespan/integration/soak/guest"
	"edgespan/integration/soak/model"
	"edgespan/integration/soak/report"
)

// run is one soak.
type run struct {
	Options
	bin, payload string
	slow         float64 // how many times as long as on real hardware things may take
	begin        time.Time
	keys         model.Keys
	plan         *model.Plan
	segments     []*segment
	lab          *lab
	machines     []*machine
	referee      *referee
	report       report.Run
	foreign      []string // what each node's foreign objects are
	undo         []ending // of the faults that last
	capturing    sync.WaitGroup

	mu     sync.Mutex // of all below
	apps   map[model.Endpoint]*appLine
	series map[string]*report.Series
	ticks  map[int]ticked
}

type ending struct {
	due time.Time
	do  func(context.Context) error
}

type ticked struct {
	at    time.Time
	pid   int
	ticks float64
}

func (r *run) since() time.Duration { return time.Since(r.begin) }

func (r *run) say(format string, args ...any) {
	fmt.Printf("%8s  %s\n", r.since().Round(time.Second), fmt.Sprintf(format, args...))
}

func (r *run) mark(kind, machine, text string, end time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Marks = append(r.report.Marks, report.Mark{At: r.since(), End: end, Machine: machine, Kind: kind, Text: text})
}

// boot starts a machine and what another program starts on it, and its apps.
func (r *run) boot(ctx context.Context, m *machine) error {
	if err := m.boot(ctx); err != nil {
		return err
	}
	_, err := m.sh(ctx, fmt.Sprintf("date -s @%d; sh %s/up.sh %d %s %s.1 %s %s", time.Now().Unix(), guest.Dir, m.node,
		model.Uplink(m.node, 0), model.Segments[0], model.ClusterLink, model.ClusterAddr(m.node)))
	if err != nil {
		return err
	}
	relay, err := m.current().start([]string{guest.Dir + "/soak", "relay", model.TapName(model.TapApp),
		model.Namespace(model.TapApp), "eth0", model.MAC(m.node, model.TapApp)})
	if err != nil {
		return err
	}
	go drain(m.node, relay)
	for app := 1; app <= model.ClusterApp; app++ {
		if err := r.startApp(m, app); err != nil {
			return err
		}
	}
	r.aim(0)
	return nil
}

// drain prints what a process says that should say nothing.
func drain(node int, p *process) {
	for text := range p.lines {
		fmt.Printf("          node %d: %s\n", node, text)
	}
}

func (r *run) startApp(m *machine, app int) error {
	e := model.Endpoint{Node: m.node, App: app}
	p, err := m.current().start([]string{"ip", "netns", "exec", model.Namespace(app), guest.Dir + "/soak", "app",
		e.String(), "eth0"})
	if err != nil {
		return err
	}
	a := &appLine{endpoint: e, order: p.tell, watch: r.referee.app}
	r.mu.Lock()
	r.apps[e] = a
	r.mu.Unlock()
	go func() {
		for text := range p.lines {
			var t guest.Told
			if json.Unmarshal([]byte(text), &t) != nil {
				fmt.Printf("          app %v: %s\n", e, text)
				continue
			}
			a.took(t)
		}
	}()
	return nil
}

// aim tells each app of a node where all others are. Node 0 are all nodes.
func (r *run) aim(node int) {
	for _, a := range r.appLines() {
		if node == 0 || a.endpoint.Node == node {
			r.order(a.endpoint, guest.Orders{})
		}
	}
}

// appLines returns the lines to all apps.
func (r *run) appLines() []*appLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.apps))
}

// beaconEvery is the time between two beacons of an app to one target, on real hardware: an emulated processor would
// be busy with them alone.
const beaconEvery = 500 * time.Millisecond

// order tells an app what to do. Between two beacons that are counted passes the time that the orders say.
func (r *run) order(e model.Endpoint, o guest.Orders) {
	r.mu.Lock()
	a := r.apps[e]
	counted := o.Every != 0
	var others []*appLine
	for _, b := range r.apps {
		if b != a && (!counted || b.endpoint.Node == e.Node) { // what is counted stays on the node
			others = append(others, b)
		}
	}
	r.mu.Unlock()
	if a == nil {
		return
	}
	if o.Targets = targetsOf(others); !counted {
		o.Every = r.limit(beaconEvery)
	}
	a.tell(o)
}

// count adds to a counter of the report.
func (r *run) count(name string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.report.Counters {
		if r.report.Counters[i].Name == name {
			r.report.Counters[i].Value += n
			return
		}
	}
	r.report.Counters = append(r.report.Counters, report.Counter{Name: name, Value: n})
}

// sampling measures all nodes until the context ends, and tells apps where the others are: addresses change.
func (r *run) sampling(ctx context.Context) {
	for ctx.Err() == nil {
		for _, m := range r.machines {
			r.sample(ctx, m)
		}
		r.measureLoss()
		r.aim(0)
		_ = wait(ctx, max(10*time.Second, r.limit(5*time.Second))) // the loop ends with its context
	}
}

// beginSampling begins to measure, and returns what ends it: nothing is measured after that.
func (r *run) beginSampling(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var measuring sync.WaitGroup
	measuring.Go(func() { r.sampling(ctx) })
	return func() {
		cancel()
		measuring.Wait()
	}
}

// wait waits for a time, or until the context ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}

func (r *run) sample(ctx context.Context, m *machine) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if m.current() == nil {
		return
	}
	res, err := m.run(ctx, guest.Dir+"/soak", "sample")
	var s guest.Measured
	if err != nil || json.Unmarshal([]byte(res.Out), &s) != nil || s.Err != "" {
		return // its power is cut, or no daemon runs
	}
	r.measured(m.node, s, time.Now())
}

// measured takes what a node's daemon takes, and judges that node 1's has never ended.
func (r *run) measured(node int, s guest.Measured, now time.Time) {
	r.mu.Lock()
	before, ok := r.ticks[node]
	r.ticks[node] = ticked{now, s.PID, s.Ticks}
	r.mu.Unlock()
	flat := node == 1 // the one whose daemon runs all the time
	if ok && before.pid == s.PID {
		r.add(node, "processor of the daemon", "%", false, (s.Ticks-before.ticks)/now.Sub(before.at).Seconds())
	} else if ok && flat {
		r.referee.violated(nodeName(node), "the watchdog is fed, nothing crashes",
			fmt.Sprintf("the daemon is process %d, was %d: no step of the plan ends it", s.PID, before.pid))
	}
	for name, value := range map[string]float64{
		"descriptors": s.Descriptors, "actors": s.Actors, "threads": s.Threads, "goroutines": s.Goroutines,
		"sets": s.Sets, "files": s.Files, "tracked flows": s.Tracked, "helpers": s.Children,
	} {
		r.add(node, name, "", flat, value)
	}
	r.add(node, "resident memory", "MB", flat, s.RSS)
	r.add(node, "anonymous memory", "MB", flat, s.Anonymous)
}

func (r *run) add(node int, name, unit string, flat bool, value float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprintf("%s\x00%d", name, node)
	s := r.series[key]
	if s == nil {
		s = &report.Series{Machine: nodeName(node), Name: name, Unit: unit, Flat: flat}
		r.series[key] = s
	}
	s.Samples = append(s.Samples, report.Sample{At: r.since(), Value: value})
}

// install installs a release on a node, and starts it.
func (r *run) install(ctx context.Context, m *machine, release, flags string) error {
	_, err := m.sh(ctx, fmt.Sprintf("sh %s/install.sh %s/%s '%s'", guest.Dir, guest.Dir, release, flags))
	return err
}

// join makes a node one of the fleet.
func (r *run) join(ctx context.Context, m *machine) error {
	printed, err := r.lab.operator(ctx, "", "nodes", "invite", nodeName(m.node))
	if err != nil {
		return err
	}
	var line string
	for text := range strings.Lines(printed) {
		if strings.HasPrefix(text, "edgespan join") {
			line = strings.TrimSpace(text)
		}
	}
	if line == "" {
		return fmt.Errorf("nodes invite printed no command: %s", printed)
	}
	if _, err := m.sh(ctx, line); err != nil {
		return err
	}
	_, err = m.sh(ctx, "systemctl restart edgespan")
	return err
}

// push makes the controller write a node's configuration.
func (r *run) push(ctx context.Context, node int, f model.Fleet, why string) error {
	r.referee.changed(f)
	_, err := r.lab.operator(ctx, string(f.Document(node, r.keys)), "node", "set", nodeName(node), "-f", "-", "-m", why)
	return err
}

// layer makes the controller write the overrides of all nodes.
func (r *run) layer(ctx context.Context, port, why string) error {
	_, err := r.lab.operator(ctx, string(model.LayerDocument(port)), "network", "modify", "-f", "-", "-m", why)
	return err
}

// deploy describes the cluster of all nodes, and deploys or undeploys it.
func (r *run) deploy(ctx context.Context, c model.Cluster, why string) error {
	docs := string(model.ClusterDocuments(r.Nodes, c))
	if _, err := r.lab.operator(ctx, docs, "apply", "-f", "-", "-m", why); err != nil {
		return err
	}
	do := "undeploy"
	if c.Deployed {
		do = "deploy"
	}
	_, err := r.lab.operator(ctx, "", "clusters", do, model.ClusterName, "-m", why)
	return err
}

// step does one step of the plan.
func (r *run) step(ctx context.Context, s model.Step) error {
	r.say("%v", s)
	r.report.Steps++
	switch s.Kind {
	case model.Quiet:
		return r.quiet(ctx)
	case model.Change:
		r.report.Changes++
		r.mark("change", nodeName(s.Node), s.Text, 0)
		// A controller that was just killed may not answer yet.
		return r.lab.eventually(ctx, 30*time.Second, func() error { return r.push(ctx, s.Node, s.Fleet, s.Text) })
	case model.Rollout:
		r.report.Changes++
		r.mark("change", "", s.Text, 0)
		level := []string{"info", "debug"}[s.Arg]
		return r.lab.eventually(ctx, 30*time.Second, func() error {
			_, err := r.lab.operator(ctx, "", "network", "modify", "sysParams.logLevel="+level, "-m", s.Text)
			return err
		})
	case model.Layer:
		r.report.Changes++
		r.mark("change", "", s.Text, 0)
		r.referee.changed(s.Fleet)
		return r.lab.eventually(ctx, 30*time.Second, func() error { return r.layer(ctx, s.Port, s.Text) })
	case model.Deploy:
		r.report.Changes++
		r.mark("change", "", s.Text, 0)
		r.referee.changed(s.Fleet)
		return r.lab.eventually(ctx, 30*time.Second, func() error { return r.deploy(ctx, s.Cluster, s.Text) })
	}
	r.report.Faults++
	end := time.Duration(0)
	if s.For > 0 {
		end = r.since() + s.For
	}
	r.mark("fault", nodeName(s.Node), s.String(), end)
	undo, err := r.inject(ctx, s)
	if undo != nil {
		r.undo = append(r.undo, ending{time.Now().Add(s.For), undo})
	}
	return err
}

// endFaults ends those that are due, or all.
func (r *run) endFaults(ctx context.Context, all bool) error {
	var kept []ending
	var failed []error
	for _, e := range r.undo {
		if all || !time.Now().Before(e.due) {
			failed = append(failed, e.do(ctx))
		} else {
			kept = append(kept, e)
		}
	}
	r.undo = kept
	return errors.Join(failed...)
}

// pause waits, and ends faults meanwhile.
func (r *run) pause(ctx context.Context, d time.Duration) error {
	for until := time.Now().Add(d); time.Now().Before(until) && ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		if err := r.endFaults(ctx, false); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// leave copies what a node knows about itself to the host.
func (r *run) leave(ctx context.Context, m *machine) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for _, script := range []string{
		"journalctl --no-pager >" + outDir + "/journal.txt", "edgespan events >" + outDir + "/events.txt 2>&1",
		"edgespan diff >" + outDir + "/diff.txt 2>&1 || true", // 1: something differs
		"edgespan doctor >" + outDir + "/doctor.txt 2>&1 || true",
		"ps axf >" + outDir + "/processes.txt",
		"for n in 1 2 3 4 5 6; do echo app$n; ip -n app$n addr; ip -n app$n route; done >" + outDir + "/apps.txt 2>&1",
		"iptables-save >" + outDir + "/iptables.txt", "ip -d addr >" + outDir + "/addr.txt",
		"ip rule >" + outDir + "/rules.txt; ip route show table all >>" + outDir + "/rules.txt",
		"edgespan support -o " + outDir + "/support.tar.gz",
		"cp -r " + recordDir + " " + outDir + "/",
	} {
		if _, err := m.sh(ctx, script); err != nil {
			r.say("node %d does not leave all: %v", m.node, err)
		}
	}
}
