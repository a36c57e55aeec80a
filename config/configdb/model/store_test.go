package model

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/config/configdb"
	"edgespan/config/kv"
)

// store is the model of a store behind a Source. It counts what is read.
type store struct {
	*kv.Model
	gets, lists int
	largest     int // operations of a transaction
}

func newStore() *store { return &store{Model: kv.NewModel()} }

func (s *store) Get(keys ...kv.Key) ([]kv.Entry, error) {
	if len(keys) > kv.MaxOps {
		return nil, fmt.Errorf("%d keys", len(keys))
	}
	s.gets++
	out := make([]kv.Entry, len(keys))
	for i, k := range keys {
		e, _, err := s.Model.Get(k)
		if err != nil {
			return nil, err
		}
		out[i] = e
	}
	return out, nil
}

func (s *store) List(p kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	s.lists++
	return s.Model.List(p, o)
}

func (s *store) Blob(sha string) (configdb.JSON, error) { return ReadBlob(s, sha) }

var errLost = errors.New("somebody was faster")

// runPlan does the first transactions, and says which revision the last of them made.
func (s *store) runPlan(txns []kv.Txn, first int) (kv.Revision, error) {
	var at kv.Revision
	for _, txn := range txns[:first] {
		if err := txn.Check(); err != nil {
			return 0, err
		}
		s.largest = max(s.largest, len(txn.Then))
		o, err := s.Commit(txn)
		if err != nil {
			return 0, err
		}
		if !o.Succeeded {
			return 0, errLost
		}
		at = o.Revision
	}
	return at, nil
}

// follow is a state that has seen all of the store.
func (s *store) follow(state *State) (*State, error) {
	batches, err := s.Since(Below, state.LastRevision())
	if err != nil {
		return nil, err
	}
	for _, b := range batches {
		if state, err = state.Follow(b); err != nil {
			return nil, err
		}
	}
	return state, nil
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// desk is one who writes and reads, and fails the test where that can't be done.
type desk struct {
	tester
	*store
	state *State
}

type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

func newDesk(t tester) *desk {
	s := newStore()
	d := &desk{t, s, nil}
	d.reload()
	return d
}

func (d *desk) reload() {
	d.Helper()
	var err error
	if d.state, err = Load(d.store); err != nil {
		d.Fatal(err)
	}
}

// write writes as anybody does who was never disturbed.
func (d *desk) write(w Write) (Written, *RequestError) {
	d.Helper()
	return d.do(QueuedWrite{Write: w, Author: "alice", Time: start, Message: "why"})
}

// own writes as a node does of itself.
func (d *desk) own(w Write, quota int64) (Written, *RequestError) {
	d.Helper()
	return d.do(QueuedWrite{Write: w, Author: "node-1", Time: start, Own: true, Quota: quota})
}

func (d *desk) do(e QueuedWrite) (Written, *RequestError) {
	d.Helper()
	for range 3 {
		p, err := d.state.Plan([]QueuedWrite{e}, d.store)
		if err != nil {
			d.Fatal(err)
		}
		if len(p.Txns) > 0 {
			at, err := d.runPlan(p.Txns, len(p.Txns))
			if err != nil {
				d.Fatal(err)
			}
			d.state = p.Next(at)
		}
		if len(p.Results) > 0 {
			return p.Results[0].Written, p.Results[0].Fault
		}
	}
	d.Fatal("the plan never came to the write")
	return Written{}, nil
}

func (d *desk) must(w Write) Written {
	d.Helper()
	out, f := d.write(w)
	if f != nil {
		d.Fatal(f)
	}
	return out
}

// refused is the fault of a write, as "kind text".
func (d *desk) refused(w Write) string {
	d.Helper()
	before := d.state
	_, f := d.write(w)
	if f == nil {
		d.Fatalf("%#v: is not refused", w)
	}
	if d.state != before {
		d.Errorf("a refused write left something behind")
	}
	return fmt.Sprintf("%d %s", f.Kind, f.Text)
}

// ask answers a query with its body, or "kind text" of a fault.
func (d *desk) ask(q Query) string {
	d.Helper()
	if q.Kind == "" {
		q.Kind = Values
	}
	c, err := d.state.Chain(q, d.store)
	if err == nil {
		var a Answer
		if a, err = c.Answer(d.store); err == nil {
			return string(a.Body)
		}
	}
	var f *RequestError
	if !errors.As(err, &f) {
		d.Fatal(err)
	}
	return fmt.Sprintf("%d %s", f.Kind, f.Text)
}

// target reads "1/nodes=n1/astute" as a target: environment, levels, resource (digits are an id).
func target(text string) Target {
	parts := strings.Split(text, "/")
	var t Target
	fmt.Sscan(parts[0], &t.Environment)
	for _, l := range parts[1 : len(parts)-1] {
		name, value, _ := strings.Cut(l, "=")
		t.Levels = append(t.Levels, LevelValue{name, value})
	}
	name := parts[len(parts)-1]
	if _, err := fmt.Sscan(name, &t.Resource.ID); err != nil {
		t.Resource.Name = name
	}
	return t
}

func doc(t tester, text string) configdb.JSON {
	t.Helper()
	v, err := configdb.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (d *desk) put(at, text string) Written {
	d.Helper()
	return d.must(Put{Target: target(at), Kind: Values, Value: doc(d, text)})
}

func (d *desk) override(at, text string) Written {
	d.Helper()
	return d.must(Put{Target: target(at), Kind: Overrides, Value: doc(d, text)})
}

func id(n int64) *int64 { return &n }

// fuel is an environment 9 as the original's tests have it: component 7 with resources, levels.
func fuel(t tester, levels ...string) *desk {
	d := newDesk(t)
	d.must(CreateComponent{ID: id(7), Name: "component1", Definitions: []Definition{{Name: "astute"}, {Name: "globals"}}})
	d.must(CreateEnvironment{ID: id(9), Components: []Ref{{ID: 7}}, Levels: levels})
	return d
}

func equal[T comparable](t tester, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func TestEffective(t *testing.T) {
	d := fuel(t, "lvl1", "lvl2")
	d.put("9/astute", `{"key1": "root", "key2": "root", "n": 1.0}`)
	d.override("9/astute", `{"key1": "rootover"}`)
	d.put("9/lvl1=1/astute", `{"key1": "level"}`)
	d.override("9/lvl1=1/lvl2=2/astute", `{"key3": null}`)
	at := target("9/lvl1=1/lvl2=2/1")
	equal(t, "effective", d.ask(Query{Target: at, Effective: true}), `{"key1":"level","key2":"root","key3":null,"n":1.0}`)
	equal(t, "lookup", d.ask(Query{Target: at, Effective: true, Lookup: true}),
		`{"key1":["level","/lvl1/1/"],"key2":["root","/"],"key3":[null,"/lvl1/1/lvl2/2/"],"n":[1.0,"/"]}`)
	equal(t, "raw", d.ask(Query{Target: at}), `{}`)
	equal(t, "key", d.ask(Query{Target: at, Effective: true, Key: []string{"key2"}}), `"root"`)
	equal(t, "key and lookup", d.ask(Query{Target: at, Effective: true, Lookup: true, Key: []string{"key2"}}),
		`["root","/"]`)
}

// Meter bounds each answer of a test as it does those of strangers.
func (s *store) Meter() *configdb.Meter { return configdb.NewMeter(nil) }
