package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
	"edgespan/platform/store/etcd"
)

// opening is a gate that was opened for a node.
type opening struct {
	at time.Time
	by string // the replica that led
}

// rolled is what a drill reads from a rollout's key.
type rolled struct {
	Revision uint64
	End      string
	Machine  struct {
		Halted bool
		Out    []string
	}
}

// rollouts runs one staged rollout after the other, and follows in the store, past all wires, which replica leads and
// which gates open.
type rollouts struct {
	*fleet
	quit context.CancelFunc
	busy sync.WaitGroup

	mu      sync.Mutex
	leader  string // the replica
	gates   []opening
	done    int
	awaited uint64 // revision
	last    rolled // as in the store
	errs    []string
}

// rolling starts one rollout after the other.
func (f *fleet) rolling() *rollouts {
	f.Helper()
	ctx, quit := context.WithCancel(f.Context())
	r := &rollouts{fleet: f, quit: quit}
	s := f.open("default")
	r.busy.Go(func() { r.watch(ctx, s) })
	r.busy.Go(func() { r.roll(ctx) })
	f.Cleanup(func() {
		quit()
		r.busy.Wait()
	})
	f.until("a rollout runs and somebody leads", func(context.Context) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.leader != "" && len(r.gates) > 3
	}, r.said)
	return r
}

func (r *rollouts) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	reported := append([]string{fmt.Sprintf("%s leads, rollout of revision %d is waited for, %d are done", r.leader,
		r.awaited,
		r.done)}, r.errs[max(0, len(r.errs)-5):]...)
	for _, one := range r.replicas {
		ctx, cancel := context.WithTimeout(r.Context(), patientFor)
		c := r.client(one.apiAt)
		all, err := c.Rollouts(ctx)
		for _, of := range all {
			if of.Staged {
				reported = append(reported,
					fmt.Sprintf("%s: rollout %d is %s, %d of %d: %v", one.name, of.Revision, of.State, of.Acked,
						of.Nodes, of.Waiting))
				break
			}
		}
		nodes, _ := c.Nodes(ctx)
		for _, n := range nodes {
			if n.Online && n.State != "InSync" || !n.Online && strings.HasPrefix(n.Name, "sim") {
				reported = append(reported, fmt.Sprintf("%s: %s: online %v, %s: %s", one.name, n.Name, n.Online, n.State, n.Why))
			}
		}
		if cancel(); err != nil {
			reported = append(reported, fmt.Sprintf("%s: %v", one.name, err))
		}
	}
	return strings.Join(reported, "\n")
}

// watch records the leader and the gates that open.
func (r *rollouts) watch(ctx context.Context, s *etcd.Store) {
	leader := history.ElectionKey("leader")
	e, at, err := s.Get(ctx, leader)
	if err != nil {
		r.wrong(err)
		return
	}
	r.leader = string(e.Value)
	err = s.Watch(ctx, "", at, func(b kv.Batch) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, ev := range b.Events {
			k := ev.Entry.Key
			switch {
			case k == leader: // others are of restarts, and of operators
				r.leader = string(ev.Entry.Value)
			case history.InAdmissions.Has(k) && ev.Kind == kv.EventPut:
				r.gates = append(r.gates, opening{time.Now(), r.leader})
			case history.InRollouts.Has(k) && ev.Kind == kv.EventPut:
				var now rolled
				if err := json.Unmarshal(ev.Entry.Value, &now); err != nil {
					return err
				}
				if now.Revision >= r.last.Revision {
					r.last = now
				}
			}
		}
		return nil
	})
	if ctx.Err() == nil {
		r.wrong(err)
	}
}

func (r *rollouts) wrong(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err.Error())
}

// roll starts a rollout, waits until it is done, and starts the next.
func (r *rollouts) roll(ctx context.Context) {
	c := r.client(r.balancer)
	for n := 1; ctx.Err() == nil; n++ {
		var revision uint64
		for ctx.Err() == nil && revision == 0 {
			within, cancel := context.WithTimeout(ctx, patientFor)
			out, err := c.Write(within,
				ops.SetNetwork{Modify: true, Overrides: config.Object{"drill": config.Object{"rollout": int64(n)}}},
				fleetapi.WriteOptions{Message: fmt.Sprint("rollout ", n)})
			cancel()
			if err != nil {
				r.wrong(fmt.Errorf("begin rollout %d: %w", n, err))
				pause(ctx, 100*time.Millisecond)
			}
			revision = out.Revision
		}
		r.await(ctx, c, revision)
	}
}

// await waits until a rollout that contains a revision is done, and resumes one that halted.
func (r *rollouts) await(ctx context.Context, c *fleetapi.Client, revision uint64) {
	for ; ctx.Err() == nil; pause(ctx, 50*time.Millisecond) {
		r.mu.Lock()
		r.awaited = revision
		last := r.last
		r.mu.Unlock()
		if last.Revision < revision {
			continue
		}
		if last.End == "done" {
			r.mu.Lock()
			r.done++
			r.mu.Unlock()
			return
		}
		if last.End != "" || last.Machine.Halted {
			r.wrong(fmt.Errorf("rollout %d: ended %q, halted %v", last.Revision, last.End, last.Machine.Halted))
			_ = c.CommandRollout(ctx, last.Revision, "resume") // it is over, or continues
			pause(ctx, time.Second)
		}
	}
}

// leads returns the replica that leads now.
func (r *rollouts) leads() (leader *replica) {
	r.Helper()
	r.until("somebody leads", func(context.Context) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		leader = nil
		for _, one := range r.replicas {
			if one.name == r.leader {
				leader = one
			}
		}
		return leader != nil
	})
	return leader
}

// midway waits until a rollout has opened gates and has more to open.
func (r *rollouts) midway() {
	r.Helper()
	since := time.Now()
	r.until("a rollout is midway", func(context.Context) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		n := len(r.gates)
		return n > 0 && r.gates[n-1].at.After(since) && r.last.End == "" && len(r.last.Machine.Out) > 0
	}, r.said)
}

// opened returns the gates opened since a moment, other than by one replica.
func (r *rollouts) opened(since time.Time, not string) (out []opening) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.gates {
		if g.at.After(since) && g.by != "" && g.by != not {
			out = append(out, g)
		}
	}
	return out
}

// goesOn waits until a gate is opened after a moment, other than by one replica, and returns how long that took.
func (r *rollouts) goesOn(since time.Time, not string) (took time.Duration) {
	r.Helper()
	r.until("the rollout goes on", func(context.Context) bool {
		if opened := r.opened(since, not); len(opened) > 0 {
			took = opened[0].at.Sub(since)
			return true
		}
		return false
	}, r.said)
	return took
}

// finish ends the changes, and waits until the last rollout is done.
func (r *rollouts) finish() {
	r.Helper()
	r.mu.Lock()
	from := r.done
	r.mu.Unlock()
	r.until("one more rollout is done", func(context.Context) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.done > from
	}, r.said)
	r.quit()
	r.busy.Wait()
	for _, e := range r.errs {
		if !errors.Is(errors.New(e), context.Canceled) {
			r.Log(e)
		}
	}
	r.Logf("%d rollouts done, %d gates opened", r.done, len(r.gates))
}
