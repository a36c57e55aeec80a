package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"time"

	"edgespan/actors/simulate"
	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
	"edgespan/platform/proc"
)

// The intervals at which the simulator queries the nodes' states and prints progress.
const (
	standEvery    = 500 * time.Millisecond
	progressEvery = 2 * time.Second
	// lastCheck is the time until the controller knows how the last pushes ended: a node whose health gets worse keeps a
	// config for its confirm timeout, which is at most two minutes.
	lastCheck = 150 * time.Second
)

// notConvergedError reports nodes that have not converged.
type notConvergedError struct{ simulate.Progress }

func (e *notConvergedError) Error() string {
	text := e.String()
	for _, w := range e.Waiting {
		text += fmt.Sprintf("\n%d wait as %q: %v", w.Nodes, w.State, w.Names)
		if w.Why != "" {
			text += ": " + w.Why
		}
	}
	return text
}

// Unwrap gives the error the exit code of a timeout.
func (e *notConvergedError) Unwrap() error { return rest.ErrTimeout }

// simulator is a running simulation.
type simulator struct {
	*simulation
	app    *serve.App
	client *fleetapi.Client
	own    *ownController // nil for a controller that ran already
	names  []string
	plan   []simulate.InjectedFault
	fleet  *simulate.SimulatedFleet
	out    measured
	begun  time.Time
	said   time.Time
	last   string // last line printed
}

// simulateNodes runs a simulation.
func simulateNodes(ctx context.Context, a *serve.App, s *simulation) (err error) {
	begun := time.Now()
	m := &simulator{begun: begun, simulation: s, app: a, plan: s.planned.Plan(s.nodes, s.seed)}
	m.out = measured{Seed: s.seed, Disk: s.disk, Faults: map[simulate.InjectedFault]int{}, Network: []simulate.Round{}}
	m.nameNodes()
	for _, f := range m.plan {
		if f != "" {
			m.out.Faults[f]++
		}
	}
	m.out.Progress = simulate.Count(m.names, m.plan, nil)
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "edgespan-simulate"); err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	}
	defer func() { err = errors.Join(err, m.end()) }()
	if s.Controller != "" && a.Env("GOGC") == "" {
		debug.SetGCPercent(200) // a real node ends a push before its collector begins
	}
	if err := m.reachController(ctx); err != nil {
		return m.ignoreInterrupt(ctx, err)
	}
	if err := m.writeTopology(ctx); err != nil {
		return m.ignoreInterrupt(ctx, err)
	}
	// --duration includes joining.
	limited, cancel := ctx, context.CancelFunc(func() {})
	if m.bounded {
		limited, cancel = context.WithDeadline(ctx, begun.Add(m.duration))
	}
	defer cancel()
	if err := m.joinAll(limited); err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			m.app.Printf("the %s are over while nodes join", m.duration)
			return m.printProgress()
		}
		return m.ignoreInterrupt(ctx, err)
	}
	m.out.Seconds.Join = time.Since(begun).Seconds()
	if m.commands {
		if err := m.start(); err != nil {
			return err
		}
		return m.answerCommands(ctx)
	}
	if err := m.converge(ctx); err != nil {
		return err
	}
	m.out.Seconds.Total = time.Since(begun).Seconds()
	return m.printProgress()
}

// ignoreInterrupt treats an interrupt as the ordinary end of a simulation.
func (m *simulator) ignoreInterrupt(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return m.printProgress()
	}
	return err
}

// end ends the nodes, and the simulation's own controller.
func (m *simulator) end() error {
	if m.fleet != nil {
		m.fleet.Stop()
	}
	if m.client != nil {
		m.client.Close()
	}
	if m.own != nil {
		return m.own.stop()
	}
	return nil
}

// reachController connects to the controller, or starts one.
func (m *simulator) reachController(ctx context.Context) error {
	if m.Controller == "" {
		var err error
		if m.own, err = startOwn(ctx, m.simulation); err != nil {
			return err
		}
		m.Controller = m.own.url
	}
	client, err := m.Client()
	if err != nil {
		return err
	}
	m.client = client
	if m.own == nil {
		return m.client.Ready(ctx)
	}
	if err := m.own.ready(ctx, m.client); err != nil {
		return err
	}
	// The simulation is the only manager of this fleet: its nodes are managed.
	_, err = m.client.Write(ctx,
		ops.SetNetwork{Overrides: config.Object{"sysParams": config.Object{"managedConfig": true}}},
		fleetapi.WriteOptions{Message: "simulate"})
	return err
}

// start boots the nodes.
func (m *simulator) start() error {
	facts, validate, err := m.nodeFacts()
	if err != nil {
		return err
	}
	m.fleet, err = simulate.Start(simulate.Options{
		Names: m.names, Plan: m.plan, Disk: m.diskOf, Stream: m.streamOf, Validator: validate, Facts: facts,
		ReportEvery: m.every,
		ApplyTime:   m.applyTime, FaultsAt: m.faultsAt, Unarmed: len(m.rollout) > 0 && m.faultsAt == 0, Topology: m.network,
		Failed: func(node string, err error) { m.app.Printf("%s: %v", node, err) },
	})
	return err
}

// converge starts the nodes, waits until they have converged, and then runs the requested measurements.
func (m *simulator) converge(ctx context.Context) error {
	begun := time.Now()
	err := m.start()
	if err != nil {
		return err
	}
	left := m.duration
	if m.bounded {
		left -= time.Since(m.begun)
	}
	limited, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	m.out.Progress, err = m.fleet.Await(limited, m.client, standEvery, m.progress)
	m.out.Seconds.Converge = time.Since(begun).Seconds()
	m.out.First = m.fleet.Times()
	if err != nil || !m.out.Done() {
		return err
	}
	if err := m.writes(limited); err != nil && limited.Err() == nil {
		return err
	}
	if err := m.rollOut(limited); err != nil {
		return err
	}
	if err := m.rest(limited); err != nil {
		return err
	}
	if r := m.out.Rollout; r != nil && !r.ended() { // nodes wait for a batch that does not come
		return nil
	}
	if m.until == "" { // the simulation runs for a duration, not until a state
		<-limited.Done()
	}
	last, cancel := context.WithTimeout(ctx, lastCheck)
	defer cancel()
	m.out.Progress, err = m.fleet.Await(last, m.client, standEvery, m.progress)
	return err
}

// progress prints how many nodes have converged; an unchanged line only after a while.
func (m *simulator) progress(t simulate.Progress) {
	pushed, acked, confirmed := m.fleet.Progress()
	text, quiet := fmt.Sprintf("%s; pushed %d, acked %d, confirmed %d", t, pushed, acked, confirmed), time.Since(m.said)
	if quiet >= sameAfter || quiet >= progressEvery && text != m.last || t.Done() {
		m.said, m.last = time.Now(), text
		m.app.Printf("%s", text)
	}
}

// printProgress prints the result: the line or the document on stdout, and the nodes that are missing on stderr.
func (m *simulator) printProgress() error {
	m.measureProcesses()
	if m.fleet != nil {
		m.out.Undone = m.fleet.UnrequestedUndos()
	}
	var err error
	if m.output == "json" {
		err = m.app.PrintJSON(m.out)
	} else {
		_, err = fmt.Fprint(m.app.Out, m.out.lines())
	}
	if err == nil && !m.out.Done() {
		err = &notConvergedError{m.out.Progress}
	}
	if m.out.Rollout != nil {
		err = errors.Join(m.out.Rollout.check(), err)
	}
	return err
}

// measureProcesses records the resources that both processes used.
func (m *simulator) measureProcesses() {
	m.out.goroutines()
	if u, err := proc.UsageOf(os.Getpid()); err == nil {
		m.out.Memory.Simulator, m.out.CPU.Simulator = u.Resident, u.CPU.Seconds()
	}
	if m.own == nil {
		return
	}
	if u, err := proc.UsageOf(m.own.process.Pid); err == nil {
		m.out.Memory.Controller, m.out.CPU.Controller = u.Resident, u.CPU.Seconds()
	}
}

// rest leaves the nodes idle for a while and measures the own controller.
func (m *simulator) rest(ctx context.Context) error {
	if m.idle <= 0 || m.own == nil {
		return nil
	}
	if !sleep(ctx, 2*m.every) { // their last reports are processed
		return nil
	}
	begun := time.Now()
	before, err := proc.UsageOf(m.own.process.Pid)
	if err != nil {
		return err
	}
	sleep(ctx, m.idle)
	after, err := proc.UsageOf(m.own.process.Pid)
	if err != nil {
		return err
	}
	i := &measuredIdle{Seconds: time.Since(begun).Seconds(), CPU: (after.CPU - before.CPU).Seconds(),
		Written: after.Written - before.Written}
	i.Share = i.CPU / i.Seconds
	m.out.Idle = i
	return nil
}

// sleep waits for d and returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// writes makes the requested overrides.
func (m *simulator) writes(ctx context.Context) error {
	failing := 0
	for _, f := range m.plan {
		if f.Fails() {
			failing++
		}
	}
	for k := range m.networkWrites {
		m.fleet.Round()
		if err := m.write(ctx, ops.SetNetwork{Overrides: simulated("network", k), Modify: true}); err != nil {
			return err
		}
		if err := m.waitConfirmed(ctx, m.nodes-failing); err != nil {
			return err
		}
		m.out.Network = append(m.out.Network, m.fleet.Times())
		m.app.Printf("network override %d of %d: acked by 99 %% after %.0f ms", k+1, m.networkWrites,
			m.fleet.Times().Acked.P99)
	}
	if m.nodeWrites == 0 {
		return nil
	}
	return m.writeNodes(ctx)
}

// simulated returns an override of a key that no node uses, with a different value each time.
func simulated(of string, k int) config.Object {
	return config.Object{"simulated": config.Object{"write": fmt.Sprintf("%s %d", of, k+1)}}
}

func (m *simulator) write(ctx context.Context, w ops.Write) error {
	_, err := m.client.Write(ctx, w, fleetapi.WriteOptions{Message: "simulate"})
	return err
}

// waitConfirmed waits until this many nodes have confirmed the round.
func (m *simulator) waitConfirmed(ctx context.Context, nodes int) error {
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		if _, _, confirmed := m.fleet.Progress(); confirmed >= nodes {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
}

// writeNodes writes to one randomly chosen node after the other.
func (m *simulator) writeNodes(ctx context.Context) error {
	chance := rand.New(rand.NewPCG(m.seed, 2))
	out := &measuredNodeWrites{}
	m.out.Node = out
	var acked, confirmed []time.Duration
	for k := range m.nodeWrites {
		i := chance.IntN(m.nodes)
		for m.plan[i].Fails() {
			i = (i + 1) % m.nodes
		}
		m.fleet.Round()
		if err := m.write(ctx,
			ops.SetNodes{Overrides: config.Object{m.names[i]: simulated("node", k)}, Modify: true}); err != nil {
			return err
		}
		if err := m.waitConfirmed(ctx, 1); err != nil {
			return err
		}
		t := m.fleet.Times()
		out.Writes++
		out.Others += t.Pushed.Nodes - 1
		acked = append(acked, time.Duration(t.Acked.Max*float64(time.Millisecond)))
		confirmed = append(confirmed, time.Duration(t.Confirmed.Max*float64(time.Millisecond)))
	}
	out.Acked, out.Confirmed = simulate.NewTimes(acked), simulate.NewTimes(confirmed)
	m.app.Printf("node overrides: acked within %.1f ms (p99 of %d)", out.Acked.P99, out.Writes)
	return nil
}
