package cluster

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

// wholeDrill reports whether the complete drill was requested, which takes minutes (make drill).
var wholeDrill = os.Getenv("EDGESPAN_DRILL") != ""

// Time limits of a drill. Only those of a step's duration are waited for.
const (
	cutFor    = 3 * time.Second  // a link; a killed process is away for longer
	stopFor   = 12 * time.Second // a hanging process: longer than any lease
	mayStop   = 6 * time.Second  // writes through what the step does not touch, on a busy machine
	goesOnBy  = 8 * time.Second  // a rollout whose leader dies, on a busy machine
	barGoesOn = 3 * time.Second  // on a quiet machine, where it is measured
)

// drill is a fleet under load: writers at each controller, and one rollout after the other.
type drill struct {
	*fleet
	w *writers
	r *rollouts
}

func beginDrill(t testing.TB) *drill {
	t.Helper()
	f := beginFleet(t)
	d := &drill{fleet: f, w: f.writers(2), r: f.rolling()}
	d.w.goOn(5)
	return d
}

// finish checks the final state against what was acknowledged and desired.
func (d *drill) finish() {
	d.Helper()
	d.r.finish()
	d.w.finish()
	d.readsAfterWrites()
	d.inSync()
}

// step does something to the fleet, undoes it, and waits until everything works again. Meanwhile the writes through the
// controllers in alone, which it does not touch, must not stop.
func (d *drill) step(name string, alone []int, do, undo func()) {
	d.Helper()
	begun := time.Now()
	do()
	undo()
	gap := d.w.gap(begun, alone...)
	healed := time.Now()
	d.w.goOn(2)
	opened := d.r.goesOn(healed, "")
	d.Logf("%s: %v had to wait for %s at most; all write again %s after, a gate opens after %s", name, alone,
		gap.Round(10*time.Millisecond), d.since(healed), opened.Round(10*time.Millisecond))
	if len(alone) > 0 && gap > mayStop {
		d.Errorf("%s: a writer at %v had to wait for %s", name, alone, gap)
	}
}

func (d *drill) since(t time.Time) time.Duration { return time.Since(t).Round(10 * time.Millisecond) }

// cut cuts wires for a while, and restores them.
func (d *drill) cut(c condition, alone []int, ws ...*wire) {
	d.Helper()
	d.step(fmt.Sprintf("%s: %s", ws[0].name, c), alone, func() {
		for _, w := range ws {
			w.set(c)
		}
		time.Sleep(cutFor)
	}, func() {
		for _, w := range ws {
			w.set(whole)
		}
	})
}

// hang stops a process for longer than its leases last.
func (d *drill) hang(name string, alone []int, signal func(os.Signal)) {
	d.Helper()
	d.step(name+" hangs", alone, func() {
		signal(syscall.SIGSTOP)
		time.Sleep(stopFor)
	}, func() { signal(syscall.SIGCONT) })
}

// peersOf returns the wires between two members, in both directions.
func (d *drill) peersOf(i, j int) []*wire { return []*wire{d.peers[i][j], d.peers[j][i]} }

var everybody = []int{0, 1, 2}

func others(not int) (out []int) {
	for _, i := range everybody {
		if i != not {
			out = append(out, i)
		}
	}
	return out
}

// indexOf returns the index of a controller.
func (d *drill) indexOf(r *replica) int {
	for i, one := range d.replicas {
		if one == r {
			return i
		}
	}
	d.Fatalf("%s is none of them", r.name)
	return 0
}

// leaderOf returns the index of etcd's leader.
func (d *drill) leaderOf() int {
	leader := d.leader()
	for i, m := range d.members {
		if m == leader {
			return i
		}
	}
	return 0
}

// kills ends a controller and starts it again. It returns how long it took for the rollout to continue, if the
// controller led it, and the longest gap between writes.
func (d *drill) kills(r *replica) (goesOn, gap time.Duration) {
	d.Helper()
	i := d.indexOf(r)
	leads := d.r.leads() == r
	if leads {
		d.r.midway()
	}
	d.step(r.name+" is killed", others(i), func() {
		begun := time.Now()
		r.kill()
		goesOn = d.r.goesOn(begun, r.name)
		time.Sleep(time.Until(begun.Add(cutFor)))
		gap = d.w.gap(begun, others(i)...)
	}, func() { d.run(r) })
	if leads {
		d.Logf("%s led: its successor opened the next gate %s after", r.name, goesOn.Round(10*time.Millisecond))
	}
	return goesOn, gap
}

// killsMember ends a member and starts it again, and returns how long no write succeeded.
func (d *drill) killsMember(m *member) (gap time.Duration) {
	d.Helper()
	d.step(m.name+" is killed", everybody, func() {
		begun := time.Now()
		d.fleet.cluster.kill(m)
		time.Sleep(2 * cutFor)
		gap = d.w.gap(begun, everybody...)
		d.Logf("%s is killed: no write at all for %s", m.name, d.w.anyGap(begun).Round(10*time.Millisecond))
	}, func() {
		d.start(m)
		d.answers(m)
	})
	return gap
}

// TestDrill does to a fleet under load what must not harm it: leaders are killed, hang, and are cut off. No
// acknowledged write is lost, none is invented, rollouts continue, and in the end all nodes run their desired config.
func TestDrill(t *testing.T) {
	d := beginDrill(t)
	quiet := time.Now()
	time.Sleep(cutFor)
	t.Logf("nothing happens: the longest wait for a write is %s", d.w.gap(quiet, everybody...).Round(10*time.Millisecond))

	goesOn, gap := d.kills(d.r.leads())
	t.Logf("the replica that leads was killed: the next gate opened %s after (bar %s), writes through the others waited "+
		"for %s at most",
		goesOn.Round(10*time.Millisecond), barGoesOn, gap.Round(10*time.Millisecond))
	if goesOn > goesOnBy {
		t.Errorf("the rollout went on after %s", goesOn)
	}
	gap = d.killsMember(d.leader())
	t.Logf("the leader of etcd was killed: the longest wait for a write is %s (bar %s)", gap.Round(10*time.Millisecond),
		barGoesOn)

	lead, m := d.indexOf(d.r.leads()), d.leaderOf()
	d.cut(hole, others(lead), d.stores[lead][m])
	d.cut(hole, everybody, d.peersOf(m, (m+1)%len(d.members))...)
	d.cut(resets, everybody, d.links[lead])
	d.finish()
}

// TestWholeDrill kills each process, makes each hang for longer than its leases, and cuts each pair of components, one
// after the other, both so that bytes stop and so that connections break.
func TestWholeDrill(t *testing.T) {
	if !wholeDrill {
		t.Skip("it takes some six minutes: make drill")
	}
	d := beginDrill(t)
	for i, r := range d.replicas {
		d.kills(r)
		d.hang(r.name, others(i), r.signal)
	}
	for _, m := range d.members {
		d.killsMember(m)
		d.hang(m.name, everybody, func(s os.Signal) { d.fleet.cluster.signal(m, s) })
	}
	for _, c := range []condition{hole, resets} {
		for i := range d.members {
			d.cut(c, everybody, d.peersOf(i, (i+1)%len(d.members))...)
		}
		for i := range d.replicas {
			for j := range d.members {
				d.cut(c, others(i), d.stores[i][j])
			}
			d.cut(c, everybody, d.links[i])
			d.cut(c, others(i), d.apis[i])
		}
	}
	d.finish()
}
