package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config/configdb"
	"edgespan/config/kv"
)

// plain is what the ledger is held against: for each revision a map of maps, and for each half of a record all
// that was ever uploaded to it.
type plain struct {
	revisions []plainState // by revision
	versions  map[string][]plainVersion
}

type plainState map[string]string // "place resource kind": document

type plainVersion struct {
	revision uint64
	text     string
}

func (p *plain) now() plainState { return p.revisions[len(p.revisions)-1] }

// write does what the record of a revision must have done.
func (p *plain) write(puts []plainPut) {
	next := maps.Clone(p.now())
	n := uint64(len(p.revisions))
	changed := false
	for _, w := range puts {
		if next[w.half] == w.text {
			continue
		}
		changed = true
		if next[w.half] = w.text; w.text == "" {
			delete(next, w.half)
		}
		p.versions[w.half] = append(p.versions[w.half], plainVersion{n, w.text})
	}
	if changed {
		p.revisions = append(p.revisions, next)
	}
}

type plainPut struct{ half, text string }

var (
	places    = []string{"", "nodes=1/", "nodes=2/", "role=a/", "role=b/"}
	resources = []string{"astute", "globals", "override/node"}
)

// world is two who write, each with a state of its own, and the plain model.
type world struct {
	*rapid.T
	s     *store
	m     plain
	desks [2]*State
	n     int
}

// half is a half of a record, as a target, a kind, and its name in the plain model. The levels role and nodes are those
// of two environments.
func (w *world) half() (Target, Kind, string) {
	place := rapid.SampledFrom(places).Draw(w.T, "place")
	resource := rapid.SampledFrom(resources).Draw(w.T, "resource")
	k := rapid.SampledFrom([]Kind{Values, Overrides}).Draw(w.T, "kind")
	return w.target(place, resource), k, place + " " + resource + " " + string(k)
}

func (w *world) target(place, resource string) Target {
	t := Target{Environment: 1, Resource: Ref{Name: resource}}
	if name, value, there := strings.Cut(strings.TrimSuffix(place, "/"), "="); there {
		if name == "role" {
			t.Environment = 2
		}
		t.Levels = []LevelValue{{name, value}}
	}
	return t
}

func (w *world) text() string {
	return fmt.Sprintf(`{"k%d":%d}`, rapid.IntRange(0, 2).Draw(w.T, "key"), rapid.IntRange(0, 3).Draw(w.T, "value"))
}

// one is a random write of a half after those of before, and what it must do. What is not there is not removed.
func (w *world) one(before [][]plainPut) (Write, []plainPut) {
	t, k, name := w.half()
	text := w.m.now()[name]
	for _, puts := range before {
		for _, put := range puts {
			if put.half == name {
				text = put.text
			}
		}
	}
	if rapid.IntRange(0, 9).Draw(w.T, "removes") == 0 && text != "" {
		return Remove{Target: t, Kind: k}, []plainPut{{name, ""}}
	}
	text = w.text()
	return Put{Target: t, Kind: k, Value: configdb.JSON(text)}, []plainPut{{name, text}}
}

// entries are some writes that wait; one of them may be refused, one may be many.
func (w *world) entries() (es []QueuedWrite, wants [][]plainPut) {
	for range rapid.IntRange(1, 4).Draw(w.T, "entries") {
		write, puts := w.one(wants)
		switch rapid.IntRange(0, 9).Draw(w.T, "sort") {
		case 0:
			write, puts = Bulk{[]Write{write, DeleteEnvironment{99}}}, nil
		case 1:
			bulk := Bulk{}
			puts = nil
			for range rapid.SampledFrom([]int{2, 130}).Draw(w.T, "bulk") {
				t, k, name := w.half()
				text := w.text()
				bulk.Writes = append(bulk.Writes, Put{Target: t, Kind: k, Value: configdb.JSON(text)})
				puts = append(puts, plainPut{name, text})
			}
			write = bulk
		}
		w.n++
		es = append(es, QueuedWrite{Write: write, Author: fmt.Sprint("author-", w.n), Time: start})
		wants = append(wants, puts)
	}
	return es, wants
}

// act lets one of the two write: on what it knows, which may be old; all of its transactions or some.
func (w *world) act() {
	who := rapid.IntRange(0, 1).Draw(w.T, "who")
	if rapid.Bool().Draw(w.T, "follows") {
		w.desks[who] = ok(w.s.follow(w.desks[who]))(w.T)
	}
	state := w.desks[who]
	es, wants := w.entries()
	p := ok(state.Plan(es, w.s))(w.T)
	for _, txn := range p.Txns {
		if err := txn.Check(); err != nil {
			w.Fatal(err)
		}
	}
	n := len(p.Txns)
	if n > 0 && rapid.IntRange(0, 4).Draw(w.T, "killed") == 0 {
		n = rapid.IntRange(0, n-1).Draw(w.T, "after")
	}
	at, err := w.s.runPlan(p.Txns, n)
	if err != nil && !errors.Is(err, errLost) {
		w.Fatal(err)
	}
	if err != nil || n < len(p.Txns) || n == 0 {
		return // nothing took place, or nothing was to be done
	}
	if rapid.Bool().Draw(w.T, "next") {
		w.desks[who] = p.Next(at)
	}
	for i, r := range p.Results {
		if want := wants[i]; (r.Fault == nil) != (want != nil) {
			w.Fatalf("%#v: %v", es[i].Write, r.Fault)
		}
		w.m.write(wants[i])
	}
}

// check compares all answers of a state that has seen everything.
func (w *world) check(s *State) {
	if got, want := s.Revision(), uint64(len(w.m.revisions)-1); got != want {
		w.Fatalf("revision %d, want %d", got, want)
	}
	d := desk{w.T, w.s, s}
	for _, place := range places {
		for _, resource := range resources {
			t := w.target(place, resource)
			for _, k := range []Kind{Values, Overrides} {
				w.checkHalf(d, t, k, place+" "+resource+" "+string(k))
			}
			at := uint64(rapid.IntRange(w.first(), len(w.m.revisions)-1).Draw(w.T, "at"))
			equal(w.T, fmt.Sprint("effective ", t, " at ", at), d.ask(Query{Target: t, Effective: true, Revision: at}),
				w.effective(place, resource, at))
		}
	}
}

// first is the revision from which on there are two environments.
func (w *world) first() int { return 3 }

func (w *world) checkHalf(d desk, t Target, k Kind, name string) {
	want := w.m.now()[name]
	if want == "" {
		want = "{}"
	}
	equal(w.T, name, d.ask(Query{Target: t, Kind: k}), want)
	var all []Version // as they must be listed, the oldest first
	n := uint64(0)
	for _, v := range w.m.versions[name] {
		one := Version{Revision: v.revision, Removed: v.text == ""}
		if !one.Removed {
			n++
			one.Number = n
			equal(w.T, fmt.Sprint(name, " version ", n), d.ask(Query{Target: t, Kind: k, Version: n}), v.text)
		}
		all = append(all, one)
	}
	slices.Reverse(all)
	q := VersionsQuery{Target: t, Kind: k}
	w.checkVersions(name, ok(d.state.Versions(q, d.store))(w.T), all)
	if n == 0 {
		return
	}
	q.Before, q.Limit = uint64(rapid.IntRange(1, int(n)+1).Draw(w.T, "before")), rapid.IntRange(1, 3).Draw(w.T, "limit")
	w.checkVersions(fmt.Sprint(name, " ", q), ok(d.state.Versions(q, d.store))(w.T), pageOf(all, q))
}

// pageOf is a part of the versions: each of them with its removal, which is before it.
func pageOf(all []Version, q VersionsQuery) (out []Version) {
	at, there := uint64(0), 0
	for _, v := range all { // how many versions there are up to the newest
		at = max(at, v.Number)
	}
	for _, v := range all {
		if at < q.Before && there < q.Limit {
			out = append(out, v)
		}
		if !v.Removed {
			if at < q.Before {
				there++
			}
			at--
		}
	}
	return out
}

func (w *world) checkVersions(name string, got, want []Version) {
	if len(got) != len(want) {
		w.Fatalf("%s: %d versions, want %d", name, len(got), len(want))
	}
	for i, v := range got {
		if v.Revision != want[i].Revision || v.Removed != want[i].Removed || v.Number != want[i].Number {
			w.Fatalf("%s: %+v, want %+v", name, v, want[i])
		}
	}
}

// effective is a plain merge of one key each.
func (w *world) effective(place, resource string, at uint64) string {
	keys := map[string]string{}
	layers := []string{""}
	if place != "" {
		layers = append(layers, place)
	}
	for _, l := range layers {
		if strings.HasPrefix(place, "role") && l == "" {
			continue // the root of another environment, where nobody writes
		}
		for _, k := range []Kind{Values, Overrides} {
			if text := w.m.revisions[at][l+" "+resource+" "+string(k)]; text != "" {
				key, value, _ := strings.Cut(strings.Trim(text, "{}"), ":")
				keys[key] = value
			}
		}
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		out = append(out, k+":"+keys[k])
	}
	return "{" + strings.Join(out, ",") + "}"
}

// show is all that a state knows, for comparing two.
func show(s *State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v at %d\n", s.head, s.at)
	for _, k := range slices.Sorted(maps.Keys(s.environments)) {
		e := s.environments[k]
		fmt.Fprintf(&b, "%d %d %v %v %d %d\n", k, e.ID, e.Components, e.Levels, e.records, e.own)
		lines := []string{}
		for name, rs := range e.places.all {
			lines = append(lines, fmt.Sprint(name, rs.m))
		}
		for id, n := range e.nodes.all {
			lines = append(lines, fmt.Sprint(id, n))
		}
		for alias, id := range e.aliases.all {
			lines = append(lines, fmt.Sprint(alias, id))
		}
		slices.Sort(lines)
		fmt.Fprintln(&b, strings.Join(lines, "\n"))
	}
	for _, k := range slices.Sorted(maps.Keys(s.definitions)) {
		fmt.Fprintf(&b, "%d %+v\n", k, *s.definitions[k])
	}
	for _, k := range slices.Sorted(maps.Keys(s.components)) {
		fmt.Fprintf(&b, "%d %+v\n", k, *s.components[k])
	}
	fmt.Fprintf(&b, "%v\n%d parts\n", *s.byID, len(s.sets[s.head.Set]))
	return b.String()
}

// sweep sweeps all that nothing refers to.
func (w *world) sweep(s *State) {
	w.s.sweepAll(w.T, s, Keep{}, nil)
}

func (s *store) sweepAll(t tester, state *State, keep Keep, between func()) int {
	sweeper, swept := state.Sweep(keep), 0
	for {
		state = ok(s.follow(state))(t)
		txn := ok(sweeper.Next(state, s))(t)
		if txn == nil {
			return swept
		}
		for _, op := range txn.Then {
			if op.Kind == kv.OpDelete {
				swept++
			}
		}
		if len(txn.Then) > 0 {
			if _, err := s.runPlan([]kv.Txn{*txn}, 1); err != nil && !errors.Is(err, errLost) {
				t.Fatal(err)
			}
		}
		if between != nil {
			between()
		}
	}
}

func ok[T any](v T, err error) func(tester) T {
	return func(t tester) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestTheLedgerIsWhatItsWritesSay lets two writers race, lose and be killed, and compares every answer, of now and of
// before, with a plain map of maps, and what was followed with what is loaded.
func TestTheLedgerIsWhatItsWritesSay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{T: rt, s: newStore(), m: plain{versions: map[string][]plainVersion{}}}
		w.m.revisions = []plainState{{}, {}, {}, {}} // the three below
		d := &desk{rt, w.s, ok(Load(w.s))(rt)}
		d.must(CreateComponent{Name: "c",
			Definitions: []Definition{{Name: "astute"}, {Name: "globals"}, {Name: "override/node"}}})
		d.must(CreateEnvironment{Components: []Ref{{ID: 1}}, Levels: []string{"nodes"}})
		d.must(CreateEnvironment{Components: []Ref{{ID: 1}}, Levels: []string{"role"}})
		w.desks = [2]*State{d.state, d.state}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			w.act()
		}
		loaded := ok(Load(w.s))(rt)
		w.check(loaded)
		for _, s := range w.desks {
			equal(rt, "followed", show(ok(w.s.follow(s))(rt)), show(loaded))
		}
		if loaded.Unfinished() && rapid.Bool().Draw(rt, "forward") {
			txns := loaded.Forward()
			if _, err := w.s.runPlan(txns, rapid.IntRange(1, len(txns)).Draw(rt, "steps of it")); err != nil {
				rt.Fatal(err)
			}
			w.check(ok(w.s.follow(loaded))(rt))
		}
		w.sweep(loaded)
		w.check(ok(w.s.follow(loaded))(rt))
		w.check(ok(Load(w.s))(rt))
	})
}
