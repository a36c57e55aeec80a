package commitconfirm

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/nodeconf/action"
)

func doc(t testing.TB, text string) config.Object {
	t.Helper()
	o, faults := config.ParseObject([]byte(text))
	if faults != nil {
		t.Fatal(faults)
	}
	return o
}

// apply does to a disk what a write says.
func (d *Disk) apply(w Write) {
	switch w.Slot {
	case SlotConfirmed:
		d.Confirmed = w.Record
	case SlotCopy:
		d.Copy = w.Record
	case SlotPending:
		d.Pending = w.Record
	case SlotClock:
		d.Clock = w.Clock
	}
	delete(d.Faults, w.Slot)
}

func short(o config.Object) string {
	return strings.NewReplacer("\n", "", " ", "", `"`, "").Replace(string(config.AppendCanonical(nil, o)))
}

// tell is one effect as a few words.
func tell(e Effect) string {
	switch e := e.(type) {
	case Write:
		switch {
		case e.Clock != nil:
			return fmt.Sprintf("write clock %v", e.Clock.Remaining)
		case e.Record == nil:
			return "drop " + string(e.Slot)
		}
		return fmt.Sprintf("write %s %v %s", e.Slot, e.Record.Generation, short(e.Record.Document))
	case Publish:
		keep := ""
		if e.Keep {
			keep = " keep all"
		}
		return fmt.Sprintf("publish %v %s%s", cmp.Or(e.Generation.String(), "none"), short(e.Document), keep)
	case StartTimer:
		return fmt.Sprintf("timer %v", e.After)
	case RunActions:
		if e.Reverse {
			return "run back " + strings.Join(config.Keys(e.Diff), "")
		}
		return "run " + strings.Join(config.Keys(e.Diff), "")
	case Restart:
		return "restart " + e.Action
	case Undo:
		return fmt.Sprintf("undo %v %s: %s", e.Generation, e.Reason, e.Why)
	case RequestVerdict:
		return fmt.Sprintf("ask %v", e.Echo.Generation)
	case Announce:
		said := string(e.What)
		if e.Why != "" {
			said += ": " + e.Why
		}
		if e.Faults != nil {
			said += ": " + e.Faults.Error()
		}
		if e.What == WouldTake {
			said += " " + short(e.Diff)
		}
		return said
	}
	return "?"
}

// bench is a machine with a disk below it and a clock that stands.
type bench struct {
	m       *Machine
	disk    Disk
	full    map[Slot]bool // slots that can't be written
	seen    []Effect
	starts  int
	nonce   Nonce
	pub     int // the last publish
	run     int
	bases   map[string]config.Object
	machine string
}

func (b *bench) step(e Event) string {
	var out []string
	queue := []Event{e}
	for len(queue) > 0 {
		e, queue = queue[0], queue[1:]
		if o, ok := e.(Candidate); ok && o.Validate == nil {
			o.Validate = func() config.Faults { return nil }
			e = o
		}
		effects := b.m.Step(e)
		b.seen = append(b.seen, effects...)
		for _, f := range effects {
			out = append(out, tell(f))
			switch f := f.(type) {
			case Write:
				if b.full[f.Slot] {
					queue = append(queue, Stored{"no space left"})
					continue
				}
				b.disk.apply(f)
				queue = append(queue, Stored{})
			case RequestVerdict:
				b.nonce = f.Nonce
			case Publish:
				b.pub = f.ID
			case RunActions:
				b.run = f.ID
			}
		}
	}
	return strings.Join(out, "; ")
}

// boot is one start; another one of the machine where it is said so.
func (b *bench) boot(machine string) string {
	b.starts++
	b.machine = machine
	b.m = &Machine{}
	return b.step(Boot{Start: fmt.Sprintf("s%d", b.starts), Machine: machine, Disk: b.disk, Bases: b.bases})
}

// Events of the tables that stand for those with numbers in them.
type (
	settled  struct{ items map[string]bool }
	timedOut struct{}
	ran      struct {
		restart string
		results []action.Result
	}
	answer  struct{ g Generation }
	boots   struct{ machine string }
	seconds int
)

func (settled) event()  {}
func (timedOut) event() {}
func (ran) event()      {}
func (answer) event()   {}
func (boots) event()    {}
func (seconds) event()  {}

func (b *bench) do(e Event) string {
	switch x := e.(type) {
	case settled:
		e = Settled{b.pub, x.items}
	case timedOut:
		e = TimedOut{b.pub}
	case ran:
		e = ActionsDone{b.run, x.results, x.restart}
	case answer:
		e = ControllerAnswered{b.nonce, x.g}
	case boots:
		return b.boot(x.machine)
	case seconds:
		var out []string
		for range int(x) {
			if said := b.step(Tick{time.Second}); said != "" {
				out = append(out, said)
			}
		}
		return strings.Join(out, "; ")
	}
	return b.step(e)
}

type step struct {
	event Event
	want  string // "…" for whatever
}

// on is a node that runs {a:1} for its controller, in the generation c:1.
func on(t testing.TB) *bench {
	first := &ConfigRecord{Seq: 1, Authority: "j", Source: Push, Generation: Generation{Authority: "c", Counter: 1},
		Document: doc(t, `{"a":1}`)}
	b := &bench{disk: Disk{Confirmed: first, Copy: first}, full: map[Slot]bool{}}
	b.boot("m1")
	b.step(Settled{1, map[string]bool{"uplink": true, "dns": false}})
	return b
}

func (b *bench) play(t *testing.T, steps []step) {
	t.Helper()
	for i, s := range steps {
		if got := b.do(s.event); got != s.want && s.want != "…" {
			t.Fatalf("step %d, %T%v:\n got %s\nwant %s", i, s.event, s.event, got, s.want)
		}
	}
}

func c(n uint64) Generation { return Generation{Authority: "c", Counter: n} }
