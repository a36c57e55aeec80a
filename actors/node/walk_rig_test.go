package node

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"edgespan/netinst/netstate"
	"edgespan/pubsub"
)

// mains is the power supply of a node. Everything that a life of the node does outside its memory, to the host, its
// disk and its processes, is a step. The power may fail at a step; the world then remains as that step found or left
// it.
type mains struct {
	mu    sync.Mutex
	steps []string // of all lives, since arm
	at    int      // step at which the power fails, from 1; 0: none
	after bool     // the step is done, but its caller gets no answer
	more  int      // steps until it fails again; 0: never
	done  []string // changes of the host and its processes since arm
	cuts  int      // how often the power failed
	last  *life
}

var errNoPower = errors.New("the power is gone")

// life is one run of the daemon. After a power failure, its steps have no effect.
type life struct {
	*mains
	off bool
}

// alive reports whether this life has power.
func (l *life) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.off
}

// arm makes the power fail at a step, counted from 1 from now on, and again some steps later.
func (m *mains) arm(at int, after bool, more int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at, m.after, m.more, m.steps, m.done = at, after, more, nil, nil
}

// did returns what was done since arm, sorted, because concurrent steps have no order.
func (m *mains) did() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(slices.Values(m.done))
}

// step performs one step and adds a note for each object of the host that it changes.
func (l *life) step(what string, notes []string, do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.off {
		return errNoPower
	}
	l.steps = append(l.steps, what)
	if len(l.steps) == l.at {
		l.off = true
		l.cuts++
		if l.at += l.more; l.more == 0 {
			l.at = 0
		}
		l.more = 0
		if !l.after {
			return errNoPower
		}
	}
	err := do()
	if err == nil {
		l.done = append(l.done, notes...)
	}
	if l.off {
		return errNoPower
	}
	return err
}

// poweredHost, poweredDisk, poweredJournal and poweredExecutors pass a life's steps to the world.
type (
	poweredHost struct {
		Host
		*life
	}
	poweredDisk struct {
		Files
		*life
	}
	poweredJournal struct {
		pubsub.Journal
		*life
	}
	poweredExecutors struct {
		Executors
		*life
	}
)

func (h poweredHost) Do(ctx context.Context, o netstate.Owner, op netstate.Op) error {
	has, err := h.Observe(ctx, o, false)
	if err != nil {
		return err
	}
	var notes []string
	for _, it := range op.Items {
		verb := "make"
		switch had := has[it.ID()]; {
		case it.Want == nil && had == nil:
			continue
		case it.Want == nil:
			verb = "remove"
		case had != nil && reflect.DeepEqual(had, it.Want):
			verb = "AGAIN"
		case had != nil: // how many of these there are is a matter of what comes together
			continue
		}
		notes = append(notes, fmt.Sprintf("%d: %s %s", o.Number, verb, it.ID()))
	}
	return h.step(fmt.Sprintf("host %d: %s", o.Number, op), notes, func() error { return h.Host.Do(ctx, o, op) })
}

func (d poweredDisk) Write(name string, content []byte) error {
	return d.step("write "+name, nil, func() error { return d.Files.Write(name, content) })
}

func (d poweredDisk) WriteSpare(name string, content []byte) error {
	return d.step("write "+name, nil, func() error { return d.Files.WriteSpare(name, content) })
}

func (d poweredDisk) Remove(name string) error {
	return d.step("drop "+name, nil, func() error { return d.Files.Remove(name) })
}

func (j poweredJournal) Put(topic, key string, v []byte) error {
	return j.step("journal "+topic+" "+key, nil, func() error { return j.Journal.Put(topic, key, v) })
}

func (j poweredJournal) Delete(topic, key string) error {
	return j.step("drop from journal "+topic+" "+key, nil, func() error { return j.Journal.Delete(topic, key) })
}

func (x poweredExecutors) Make(ctx context.Context, e netstate.Executor) error {
	return x.step("start "+e.ID, []string{"start " + e.ID}, func() error {
		if ok, _, err := x.Check(ctx, e); err != nil || ok == netstate.AsDesired {
			x.done = append(x.done, "ALIVE ALREADY: "+e.ID)
		}
		return x.Executors.Make(ctx, e)
	})
}

func (x poweredExecutors) Remove(ctx context.Context, id string) error {
	return x.step("stop "+id, []string{"stop " + id}, func() error { return x.Executors.Remove(ctx, id) })
}

// plug connects all further lives of a rig's node to these mains.
func (m *mains) plug(r *rig) {
	r.change = func(o *Options) {
		l := &life{mains: m}
		m.last = l
		o.Host, o.Files, o.Journal, o.Executors = poweredHost{o.Host, l}, poweredDisk{o.Files, l},
			poweredJournal{o.Journal, l}, poweredExecutors{o.Executors, l}
	}
}

// snapshot returns everything on the host, as text.
func (r *rig) snapshot() string {
	r.Helper()
	var b strings.Builder
	for n := range 10 {
		if st := r.host.State(n); len(st) > 0 {
			fmt.Fprintf(&b, "owner %d:\n%s\n", n, st)
		}
	}
	ids, err := r.execs.List(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	fmt.Fprintf(&b, "executors %q\n", ids)
	return b.String()
}

// again returns what was done although it was done already.
func again(did []string) (out []string) {
	for _, d := range did {
		if strings.Contains(d, "AGAIN") || strings.Contains(d, "ALIVE") {
			out = append(out, d)
		}
	}
	return out
}

// added returns what a has more often than b.
func added(a, b []string) (more []string) {
	left := map[string]int{}
	for _, x := range b {
		left[x]++
	}
	for _, x := range a {
		if left[x]--; left[x] < 0 {
			more = append(more, x)
		}
	}
	return more
}
