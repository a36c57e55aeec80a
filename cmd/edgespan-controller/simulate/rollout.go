package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"edgespan/actors/simulate"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/rollout"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
)

// Flags of the controller's config that the simulator uses itself.
const (
	flagStaged   = "config_staged_rollout_enabled"
	flagFailures = "config_rollout_failures"
	flagPercent  = "config_rollout_failures_percent"
	flagOffline  = "config_rollout_offline_percent"
	flagCanary   = "config_rollout_canary"
	flagLimit    = "config_rollout_batch_limit"
)

// rolloutEvery is the interval at which the simulator queries the rollout's progress.
const rolloutEvery = 250 * time.Millisecond

// States of a rollout, as the API names them.
const (
	rolloutDone   = "done"
	rolloutFailed = "failed"
	rolloutHalted = "halted"
)

// measuredRollout is the result of --rollout.
type measuredRollout struct {
	Revision uint64                  `json:"revision"`
	State    string                  `json:"state"`
	Expected []string                `json:"expected"` // states that the faults allow
	Batches  []fleetapi.RolloutBatch `json:"batches"`
	Planned  int                     `json:"batchesPlanned"` // 0 without a topology
	Nodes    int                     `json:"nodes"`
	Acked    int                     `json:"acked"`
	Failed   int                     `json:"failed"`
	Why      string                  `json:"why,omitempty"` // of a halt
	Seconds  float64                 `json:"seconds"`
	Paths    *simulate.Paths         `json:"paths,omitempty"` // in a topology

	budget int
}

// unexpectedEndError reports a rollout that ended in a state that the faults do not allow.
type unexpectedEndError struct{ *measuredRollout }

func (e *unexpectedEndError) Error() string {
	text := fmt.Sprintf("the rollout of revision %d is %s, and by the faults it is to be %s", e.Revision,
		cmp.Or(e.State, "not there"), strings.Join(e.Expected, " or "))
	if over := e.haltedTooLateAt(); over > 0 && slices.Contains(e.Expected, e.State) {
		text = fmt.Sprintf("the rollout of revision %d went on after batch %d, in which the last node failed that may fail",
			e.Revision, over)
	}
	return text
}

// Unwrap gives the error the exit code of a timeout.
func (e *unexpectedEndError) Unwrap() error { return rest.ErrTimeout }

// brokenPathsError reports a rollout that cut off nodes although another order would not have.
type brokenPathsError struct{ simulate.Paths }

func (e *brokenPathsError) Error() string {
	text := fmt.Sprintf("%d nodes lost their last path to a point of presence during the rollout, and need not have",
		e.Broken)
	for _, b := range e.Named {
		text += fmt.Sprintf("\n%s lost it while these took the config: %s", b.Node, strings.Join(b.By, " "))
	}
	return text
}

// rollOut makes the change of --rollout and watches the rollout until it ends or halts.
func (m *simulator) rollOut(ctx context.Context) error {
	if len(m.rollout) == 0 {
		return nil
	}
	out := &measuredRollout{Batches: []fleetapi.RolloutBatch{}}
	m.out.Rollout = out
	out.expect(m.plan, m.flag(flagFailures, 0), m.atOnce)
	if percent := m.flag(flagPercent, 0); percent > 0 && !m.atOnce {
		out.allowFailures(len(m.names) * percent / 100)
	}
	if m.network != nil && !m.atOnce {
		plan, faults := rollout.Plan(m.network, m.names,
			rollout.Options{AssumeAlive: true, Limit: m.flag(flagLimit, 0), First: m.flag(flagCanary, 1)})
		if len(faults) > 0 {
			return faults
		}
		out.Planned = len(plan.Batches)
	}
	if err := m.setFlags(ctx); err != nil {
		return err
	}
	m.fleet.Watch()
	m.fleet.Arm()
	m.fleet.Round()
	begun := time.Now()
	w, err := m.client.Write(ctx, ops.SetNetwork{Overrides: m.change, Modify: true},
		fleetapi.WriteOptions{Message: "simulate: " + strings.Join(m.rollout, " ")})
	if err != nil {
		return fmt.Errorf("--rollout: %w", err)
	}
	if !w.Changed {
		return term.Usagef("--rollout: no change: the config already has these values: choose another value")
	}
	out.Revision = w.Revision
	err = m.follow(ctx, out)
	out.Seconds = time.Since(begun).Seconds()
	if m.network != nil {
		seen := m.fleet.Paths()
		out.Paths = &seen
	}
	return err
}

// setFlags enables staged rollouts in the simulation's own controller. Another controller keeps its operator's flags.
func (m *simulator) setFlags(ctx context.Context) error {
	if m.own == nil {
		return nil
	}
	// The expected result counts nodes, so percentages are 0 unless requested.
	flags := config.Object{flagStaged: strconv.FormatBool(!m.atOnce), flagPercent: "0", flagOffline: "0"}
	for name, value := range m.flags {
		flags[name] = value
	}
	_, err := m.client.Write(ctx, ops.SetE2E{File: "controller", Config: config.Object{"flags": flags}, Modify: true},
		fleetapi.WriteOptions{Message: "simulate"})
	if err != nil {
		return fmt.Errorf("--controller-flags: %w", err)
	}
	return nil
}

// flag returns a number that the simulation set as a flag of the controller, or otherwise.
func (m *simulator) flag(name string, otherwise int) int {
	if n, err := strconv.Atoi(m.flags[name]); err == nil {
		return n
	}
	return otherwise
}

// expect sets the states in which the rollout may end: more failing nodes than permitted halt a staged one.
func (r *measuredRollout) expect(plan []simulate.InjectedFault, budget int, atOnce bool) {
	failing := 0
	for _, f := range plan {
		if f.HaltsRollout() {
			failing++
		}
	}
	r.budget = budget
	switch {
	case failing == 0:
		r.Expected = []string{rolloutDone}
	case failing > budget && !atOnce:
		r.Expected = []string{rolloutHalted}
	default: // a node that undid the change may apply it later
		r.Expected = []string{rolloutDone, rolloutFailed}
	}
}

// allowFailures is expect with a percentage of failures. It refers to the nodes tried so far, so fewer failures may
// halt the rollout early.
func (r *measuredRollout) allowFailures(budget int) {
	if r.budget >= budget || !slices.Contains(r.Expected, rolloutHalted) {
		return
	}
	r.budget = budget
	r.Expected = []string{rolloutHalted, rolloutDone, rolloutFailed}
}

// haltedTooLateAt returns the number of the batch after which the rollout should have halted but did not, or 0.
func (r *measuredRollout) haltedTooLateAt() int {
	failed := 0
	for i, b := range r.Batches {
		failed += b.Failed
		if failed > r.budget && i < len(r.Batches)-1 {
			return b.Number
		}
	}
	return 0
}

// ended reports whether the rollout has tried all nodes.
func (r *measuredRollout) ended() bool { return r.State == rolloutDone || r.State == rolloutFailed }

// check returns an error unless the rollout ended as expected.
func (r *measuredRollout) check() error {
	var err error
	if r.Paths != nil && r.Paths.Broken > 0 {
		err = &brokenPathsError{*r.Paths}
	}
	if !slices.Contains(r.Expected, r.State) || r.haltedTooLateAt() > 0 {
		err = errors.Join(err, &unexpectedEndError{r})
	}
	return err
}

// follow prints the rollout's progress until it has ended or halted.
func (m *simulator) follow(ctx context.Context, out *measuredRollout) error {
	tick := time.NewTicker(rolloutEvery)
	defer tick.Stop()
	reported := teller{m: m, planned: out.Planned}
	for {
		d, err := m.askRollout(ctx, out.Revision)
		switch {
		case errors.Is(err, rest.ErrNotFound): // the leader has not begun it
		case err != nil && ctx.Err() == nil:
			return err
		case err == nil:
			if out.State == "" { // the rollout exists now
				m.app.Printf("rollout of revision %d begins: edgespan --controller %s rollout watch %d", out.Revision, m.Controller,
					out.Revision)
			}
			out.State, out.Nodes, out.Acked, out.Failed = d.State, d.Nodes, d.Acked, len(d.Failed)
			if d.Batches != nil {
				out.Batches = d.Batches
			}
			reported.print(d.Rollout)
			if d.State == rolloutHalted {
				out.Why = lastHalt(d.Decisions)
			}
			if d.Ended != nil || d.State == rolloutHalted {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return nil // check reports that it has not ended
		case <-tick.C:
		}
	}
}

func (m *simulator) askRollout(ctx context.Context, revision uint64) (fleetapi.RolloutDetail, error) {
	if !m.atOnce {
		return m.client.ExplainRollout(ctx, revision)
	}
	r, err := m.client.Rollout(ctx, revision)
	return fleetapi.RolloutDetail{Rollout: r}, err
}

// lastHalt returns the reason of the last halt.
func lastHalt(all []fleetapi.Verdict) string {
	for _, v := range slices.Backward(all) {
		if v.What == rolloutHalted {
			return v.Why
		}
	}
	return ""
}

// sameAfter is the interval at which an unchanged line is repeated.
const sameAfter = 10 * time.Second

// teller prints a line when a batch starts, its progress from time to time, and a line when all its nodes have
// answered.
type teller struct {
	m       *simulator
	planned int
	out     int // the last batch whose start was printed
	over    int // the last batch whose end was printed
	text    string
	at      time.Time
}

func (t *teller) print(r fleetapi.Rollout) {
	for _, b := range r.Batches {
		if b.Number <= t.over {
			continue
		}
		name := fmt.Sprintf("batch %d", b.Number)
		if t.planned > 0 {
			name += fmt.Sprintf(" of %d", max(t.planned, b.Number))
		}
		switch {
		case b.Out == 0:
			t.m.app.Printf("%s: %s answered: %d acked, %d failed; %d of %d have the change", name, term.Many(b.Nodes, "node"),
				b.Acked, b.Failed, r.Acked, r.Nodes)
			t.over, t.out, t.at = b.Number, b.Number, time.Now()
		case b.Number > t.out:
			t.m.app.Printf("%s goes out to %s", name, term.Many(b.Nodes, "node"))
			t.out, t.at = b.Number, time.Now()
		default:
			t.progress("%s: %d of %d acked, %d failed; waits for %s", name, b.Acked, b.Nodes, b.Failed, waitedFor(r))
		}
	}
	if len(r.Batches) == 0 {
		t.progress("%d of %d acked, %d failed", r.Acked, r.Nodes, len(r.Failed))
	}
}

// progress prints a line if it has changed, or after sameAfter.
func (t *teller) progress(format string, args ...any) {
	text, now := fmt.Sprintf(format, args...), time.Now()
	if quiet := now.Sub(t.at); quiet >= sameAfter || quiet >= progressEvery && text != t.text {
		t.text, t.at = text, now
		t.m.app.Printf("%s", text)
	}
}

// waitedFor names some of the nodes that have not answered.
func waitedFor(r fleetapi.Rollout) string {
	var names []string
	for name, why := range r.Waiting {
		if strings.HasPrefix(why, string(rollout.Pushed)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if more := len(names) - maxWaited; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxWaited], " "), more)
	}
	return strings.Join(names, " ")
}

// maxWaited is the number of nodes that waitedFor names.
const maxWaited = 3

// String returns the last line of a rollout.
func (r *measuredRollout) String() string {
	text := fmt.Sprintf("rollout %s", cmp.Or(r.State, "not begun"))
	if n := len(r.Batches); n > 0 {
		text += fmt.Sprintf(" after batch %d", r.Batches[n-1].Number)
		if r.Planned > 0 {
			text += fmt.Sprintf(" of %d", max(r.Planned, r.Batches[n-1].Number))
		}
	}
	text += fmt.Sprintf(": %d of %s have the change, %d failed", r.Acked, term.Many(r.Nodes, "node"), r.Failed)
	if r.Why != "" {
		text += ": " + r.Why
	}
	return text
}
