package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/override"
)

// plainModel is the reference for the history: a list of all states, each a map of documents, and the author of each.
type plainModel struct {
	states  []map[Layer]config.Object // by revision
	authors []string
	names   [][]Rename // by revision
}

// writer is one of two writers: it plans on what it read, and commits later.
type writer struct {
	name  string
	plan  *CommitPlan
	done  int // transactions of the plan that are done
	next  map[Layer]config.Object
	moved []Rename
}

// before returns a layer's name before a revision that renamed its node.
func (m *plainModel) before(n int, l Layer) (Layer, bool) {
	for _, r := range m.names[n] {
		from := Layer{l.Kind, r.From}
		if (l.Kind == Node || l.Kind == Auto) && l.Name == r.To && m.states[n][l] != nil && m.states[n-1][from] != nil {
			return from, true
		}
	}
	return l, false
}

type world struct {
	*rapid.T
	s       *store
	m       plainModel
	writers [2]writer
	clock   time.Time
	checked string // tree of the head that was read last
}

var nodeNames = []string{"n1", "n2", "n/3", ""}

func (w *world) anyLayer() Layer {
	kind := rapid.SampledFrom([]Kind{Network, Node, Auto, Metadata, E2E}).Draw(w.T, "kind")
	if !kind.hasName() {
		return Layer{Kind: kind}
	}
	return Layer{kind, rapid.SampledFrom(nodeNames).Draw(w.T, "name")}
}

func (w *world) anyDocument() config.Object {
	leaf := rapid.SampledFrom([]any{nil, true, int64(1), int64(2), 1.5, "ä", []any{int64(1)}, config.Object{}})
	o := config.Object{}
	for range rapid.IntRange(0, 3).Draw(w.T, "keys") {
		path := []string{rapid.SampledFrom([]string{"a", "b", "c.d"}).Draw(w.T, "key")}
		if rapid.Bool().Draw(w.T, "deeper") {
			path = append(path, rapid.SampledFrom([]string{"x", "y"}).Draw(w.T, "key"))
		}
		o = config.Set(o, path, leaf.Draw(w.T, "value"))
	}
	return o
}

func (w *world) state() State {
	s, err := Head(w.s)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) last() map[Layer]config.Object { return w.m.states[len(w.m.states)-1] }

// anyChange returns a write, and the plain model's state after it; nil if the write is refused.
func (w *world) anyChange() (Change, map[Layer]config.Object) {
	state, now := w.state(), maps.Clone(w.last())
	var c Change
	var err error
	switch op := rapid.SampledFrom([]string{"set", "set", "several", "modify", "unset", "delete", "edit", "restore",
		"layer", "revert", "rename", "rename", "large"}).Draw(w.T, "op"); op {
	case "set":
		c.Layers = map[Layer]config.Object{w.anyLayer(): w.anyDocument()}
	case "several":
		c.Layers = map[Layer]config.Object{}
		for range 3 {
			c.Layers[w.anyLayer()] = w.anyDocument()
		}
	case "modify":
		l := w.anyLayer()
		merged, _ := config.Merge(now[l], w.anyDocument())
		c.Layers = map[Layer]config.Object{l: merged}
	case "unset":
		l := w.anyLayer()
		if now[l] == nil {
			return c, nil
		}
		c.Layers = map[Layer]config.Object{l: config.Unset(now[l], []string{"a"})}
	case "delete":
		c.Layers = map[Layer]config.Object{w.anyLayer(): nil}
	case "edit":
		r, faults := override.Apply(override.Inputs{Network: now[Layer{Kind: Network}]},
			override.Change{Layer: layers.Network, Op: override.Modify, Overrides: w.anyDocument()})
		if faults != nil {
			return c, nil
		}
		c.Layers = FromEdit(layers.Network, r)
	case "large":
		if rapid.IntRange(0, 3).Draw(w.T, "really") > 0 {
			return c, nil
		}
		c.Layers = many(rapid.IntRange(100, 160).Draw(w.T, "layers"), fmt.Sprint(rapid.IntRange(0, 2).Draw(w.T, "value")))
	case "restore":
		to := rapid.IntRange(0, len(w.m.states)-1).Draw(w.T, "revision")
		c, err = state.Restore(uint64(to))
		now = maps.Clone(w.m.states[to])
		return w.accept(c, err, now)
	case "layer":
		to := rapid.IntRange(0, len(w.m.states)-1).Draw(w.T, "revision")
		l := w.anyLayer()
		c, err = state.Restore(uint64(to), l)
		put(now, l, w.m.states[to][l])
		return w.accept(c, err, now)
	case "revert":
		if len(w.m.states) == 1 {
			return c, nil
		}
		// The newest revision can always be reverted; the result is its parent's state.
		c, err = state.Revert(uint64(len(w.m.states) - 1))
		return w.accept(c, err, maps.Clone(w.m.states[len(w.m.states)-2]))
	case "rename":
		from, to := rapid.SampledFrom(nodeNames).Draw(w.T, "from"), rapid.SampledFrom(nodeNames[:3]).Draw(w.T, "to")
		if c, err = state.Rename(from, to); err != nil {
			var faults config.Faults
			known := now[Layer{Node, from}] != nil || now[Layer{Auto, from}] != nil
			clash := now[Layer{Node, to}] != nil || now[Layer{Auto, to}] != nil
			if !errors.As(err, &faults) || known && !clash && from != to {
				w.Fatalf("%q to %q: %v", from, to, err)
			}
			return c, nil
		}
	}
	for l, d := range c.Layers {
		put(now, l, d)
	}
	return c, now
}

func (w *world) accept(c Change, err error, now map[Layer]config.Object) (Change, map[Layer]config.Object) {
	if err != nil {
		w.Fatal(err)
	}
	return c, now
}

func put(state map[Layer]config.Object, l Layer, d config.Object) {
	if state[l] = d; d == nil {
		delete(state, l)
	}
}

func same(a, b map[Layer]config.Object) bool {
	return maps.EqualFunc(a, b, func(a, b config.Object) bool { return config.Equal(a, b) })
}

// begin lets a writer plan. Sometimes its write is conditional on a layer that another writer wrote.
func (w *world) begin(by *writer) {
	c, next := w.anyChange()
	if next == nil {
		return
	}
	w.clock = w.clock.Add(time.Second)
	c.Author, c.Time = by.name, w.clock
	l := w.anyLayer()
	c.IfMatch = map[Layer]uint64{l: uint64(rapid.IntRange(0, len(w.m.states)).Draw(w.T, "bound to"))}
	written := w.lastWrite(l)
	p, err := w.state().Plan(c)
	var conflicts Conflicts
	if errors.As(err, &conflicts) {
		if conflicts[0].By.Number != written || written == c.IfMatch[l] || written > 0 &&
			conflicts[0].By.Author != w.m.authors[written] {
			w.Fatalf("%v: %s was written by %d", err, l, written)
		}
		c.IfMatch = nil
		p, err = w.state().Plan(c)
	} else if written != c.IfMatch[l] {
		w.Fatalf("%s was written by %d, not %d: %v", l, written, c.IfMatch[l], err)
	}
	if err != nil {
		w.Fatal(err)
	}
	if (len(p.Txns) == 0) != same(next, w.last()) && c.Renamed == nil {
		w.Fatalf("%d transactions from %v to %v", len(p.Txns), w.last(), next)
	}
	if len(p.Txns) > 0 {
		*by = writer{by.name, &p, 0, next, c.Renamed}
	}
}

// lastWrite returns the last revision that wrote a layer, by the plain model.
func (w *world) lastWrite(l Layer) uint64 {
	for n := len(w.m.states) - 1; n > 0; n-- {
		before, after := w.m.states[n-1][l], w.m.states[n][l]
		if (before == nil) != (after == nil) || !config.Equal(before, after) {
			return uint64(n)
		}
		if _, renamed := w.m.before(n, l); renamed {
			return uint64(n)
		}
	}
	return 0
}

// goOn does the next transaction of a writer, or lets it die.
func (w *world) goOn(by *writer) {
	if rapid.IntRange(0, 9).Draw(w.T, "dies") == 0 {
		*by = writer{name: by.name}
		return
	}
	outcome, err := w.s.Commit(by.plan.Txns[by.done])
	if err != nil {
		w.Fatal(err)
	}
	if moved := by.plan.Record.Parent != uint64(len(w.m.states)-1); outcome.Succeeded == moved &&
		!w.swept(by, outcome.Succeeded) {
		w.Fatalf("planned on revision %d, head is %d: succeeded %v", by.plan.Record.Parent, len(w.m.states)-1,
			outcome.Succeeded)
	}
	if by.done++; outcome.Succeeded && by.done < len(by.plan.Txns) {
		return
	}
	if outcome.Succeeded {
		w.m.states = append(w.m.states, by.next)
		w.m.authors = append(w.m.authors, by.name)
		w.m.names = append(w.m.names, by.moved)
	}
	*by = writer{name: by.name}
}

// swept reports whether a sweep moved head below a writer.
func (w *world) swept(by *writer, succeeded bool) bool {
	entry := ok(w.s.Get(HeadKey()))(w.T)[0]
	return !succeeded && by.plan.Txns[0].Compares[0].Revision != entry.ModRevision
}

// check compares the complete history with the plain model.
func (w *world) check(all bool) {
	state := w.state()
	if state.Number != uint64(len(w.m.states)-1) {
		w.Fatalf("head is at %d, not %d", state.Number, len(w.m.states)-1)
	}
	first := len(w.m.states) - 1
	if all {
		first = 0
	} else if state.tree == w.checked {
		return
	}
	w.checked = state.tree
	for n := first; n < len(w.m.states); n++ {
		s := ok(At(w.s, uint64(n)))(w.T)
		got := map[Layer]config.Object{}
		for _, v := range ok(s.AllLayers())(w.T) {
			got[v.Layer] = v.Document
		}
		if !same(got, w.m.states[n]) {
			w.Fatalf("revision %d is %v, not %v", n, got, w.m.states[n])
		}
	}
	if !all {
		return
	}
	records := ok(state.Log(0))(w.T)
	for i, r := range records {
		if want := uint64(len(records) - i); r.Number != want || r.Parent != want-1 || r.Author != w.m.authors[want] {
			w.Fatalf("record %d of the log is %v", i, r)
		}
	}
	w.checkHistories(state)
	w.checkChanged(state)
}

// checkHistories checks that each change of a layer is in its history, in order.
func (w *world) checkHistories(state State) {
	for _, l := range []Layer{{Kind: Network}, {Node, "n1"}, {Auto, "n2"}, {Node, "n/3"}, {Kind: Metadata}} {
		var want []uint64
		for n, at := len(w.m.states)-1, l; n > 0; n-- {
			before, after := w.m.states[n-1][at], w.m.states[n][at]
			if from, renamed := w.m.before(n, at); renamed {
				want = append(want, uint64(n))
				at = from
			} else if (before == nil) != (after == nil) || !config.Equal(before, after) {
				want = append(want, uint64(n))
			}
		}
		var got []uint64
		for _, e := range ok(state.History(l, 0))(w.T) {
			got = append(got, e.Revision)
		}
		if !slices.Equal(got, want) {
			w.Fatalf("history of %s is %v, not %v", l, got, want)
		}
		got = nil
		for _, e := range ok(state.Written(l, 0))(w.T) {
			got = append(got, e.Revision)
			if e.Document != nil {
				w.Fatalf("%s of revision %d has its document", l, e.Revision)
			}
		}
		if !slices.Equal(got, want) {
			w.Fatalf("%s was written by %v, not %v", l, got, want)
		}
		if change, found, err := state.LastChange(l, []string{"a"}); err != nil || found &&
			!slices.Contains(want, change.By.Number) {
			w.Fatalf("blame of %s: %v %v %v", l, change, found, err)
		}
	}
}

// checkChanged looks that the names of what a revision wrote are those of its differences.
func (w *world) checkChanged(state State) {
	for n := uint64(1); n <= state.Number; n++ {
		var want []Layer
		for _, d := range ok(changesOf(state.reader, n))(w.T) {
			want = append(want, d.Layer)
		}
		if got := ok(ChangedLayers(state.reader, n))(w.T); !slices.Equal(got, want) {
			w.Fatalf("revision %d changed %v, not %v", n, got, want)
		}
	}
}

// Two writers compete, with a sweeper and crashes between any two transactions: a reader always sees one of the plain
// model's states, nothing is ever lost, and history is complete and in order. The number of rounds is rapid's times
// ten.
func TestPropertyHistoriesOfTwoWriters(t *testing.T) {
	for part := range 10 {
		t.Run(fmt.Sprint(part), rapid.MakeCheck(func(t *rapid.T) { twoWriters(t, newStore()) }))
	}
}

// twoWriters is one such history in an empty store.
func twoWriters(t *rapid.T, s *store) {
	w := &world{T: t, s: s, clock: start}
	w.m = plainModel{[]map[Layer]config.Object{{}}, []string{""}, [][]Rename{nil}}
	w.writers = [2]writer{{name: "ann"}, {name: "bob"}}
	for range rapid.IntRange(1, 30).Draw(t, "steps") {
		by := &w.writers[rapid.IntRange(0, 1).Draw(t, "writer")]
		switch {
		case rapid.IntRange(0, 19).Draw(t, "sweep") == 0:
			w.checked = ""
			w.s.sweep(t, w.clock.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "age"))*time.Minute))
		case by.plan == nil:
			w.begin(by)
		default:
			w.goOn(by)
		}
		w.check(false)
	}
	w.s.sweep(t, w.clock.Add(time.Minute))
	w.check(true)
}

// A large write cut after each of its transactions leaves the state before or the state after.
func TestPropertyACutLeavesTheOldOrTheNewState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStore()
		size := rapid.IntRange(1, 400).Draw(t, "layers")
		s.write(t, Change{Layers: many(rapid.IntRange(0, 200).Draw(t, "before"), "old")})
		before := tell(t, s.head(t))
		p := ok(s.head(t).Plan(signed(Change{Layers: many(size, "new")})))(t)
		cut := rapid.IntRange(0, len(p.Txns)).Draw(t, "cut")
		if err := s.runPlan(p, cut); err != nil {
			t.Fatal(err)
		}
		after := tell(t, s.head(t))
		if cut < len(p.Txns) && after != before || cut == len(p.Txns) && strings.Count(after, "new") != size {
			t.Fatalf("%d of %d transactions: %s", cut, len(p.Txns), after)
		}
	})
}

// Rollback of the newest revision restores the digest before it.
func TestPropertyRollbackOfTheNewestRestoresTheDigest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, s: newStore(), clock: start}
		w.m = plainModel{[]map[Layer]config.Object{{}}, []string{""}, [][]Rename{nil}}
		for range rapid.IntRange(1, 6).Draw(t, "writes") {
			before := ok(w.state().Digest())(t)
			c, next := w.anyChange()
			if next == nil {
				continue
			}
			at := w.state().Number
			if w.s.write(t, c).Number == at {
				continue
			}
			w.m.states = append(w.m.states, next)
			for i, back := range []func() (Change, error){
				func() (Change, error) { return w.state().Revert(at + 1) },
				func() (Change, error) { return w.state().Restore(at + 1) },
				func() (Change, error) { return w.state().Restore(at) },
			} {
				w.s.write(t, ok(back())(t))
				if got := ok(w.state().Digest())(t); (got == before) != (i != 1) {
					t.Fatalf("rollback %d of revision %d: digest %s, before %s", i, at+1, got, before)
				}
				at := w.state()
				docs := map[Layer]config.Object{}
				for _, v := range ok(at.AllLayers())(t) {
					docs[v.Layer] = v.Document
				}
				for uint64(len(w.m.states)) <= at.Number {
					w.m.states = append(w.m.states, docs)
				}
			}
		}
	})
}
