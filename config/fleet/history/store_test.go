package history

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/kv"
)

// backend stores the history: the model of a store, or a real one.
type backend interface {
	Get(key kv.Key) (kv.Entry, kv.Revision, error)
	List(below kv.Prefix, o kv.ListOptions) (kv.Page, error)
	Commit(txn kv.Txn) (kv.TxnResult, error)
}

// store is a backend behind a Reader. It counts reads.
type store struct {
	backend
	gets int
}

func newStore() *store { return &store{backend: kv.NewModel()} }

func (s *store) Get(keys ...kv.Key) ([]kv.Entry, error) {
	if len(keys) > kv.MaxOps {
		return nil, fmt.Errorf("%d keys", len(keys))
	}
	s.gets += len(keys)
	var txn kv.Txn // for one consistent read
	for _, key := range keys {
		txn.Then = append(txn.Then, kv.Get(key))
	}
	outcome, err := s.Commit(txn)
	if err != nil {
		return nil, err
	}
	out := make([]kv.Entry, len(keys))
	for i, result := range outcome.Results {
		out[i] = result.Entry
	}
	return out, nil
}

var errMoved = errors.New("a transaction did not succeed")

// runPlan does the first transactions of a plan.
func (s *store) runPlan(p CommitPlan, first int) error {
	for _, txn := range p.Txns[:first] {
		outcome, err := s.Commit(txn)
		if err != nil {
			return err
		}
		if !outcome.Succeeded {
			return errMoved
		}
	}
	return nil
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// write writes without interference.
func (s *store) write(t tester, c Change) RevisionRecord {
	t.Helper()
	p, err := s.head(t).Plan(signed(c))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.runPlan(p, len(p.Txns)); err != nil {
		t.Fatal(err)
	}
	return p.Record
}

func signed(c Change) Change {
	if c.Author == "" {
		c.Author = "alice"
	}
	if c.Time.IsZero() {
		c.Time = start
	}
	return c
}

func (s *store) head(t tester) State {
	t.Helper()
	state, err := Head(s)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func doc(t tester, text string) config.Object {
	t.Helper()
	if text == "" {
		return nil
	}
	o, faults := config.ParseObject([]byte(text))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return o
}

// layersFrom parses "network={…}; node/n1=" as layers; an empty value deletes.
func layersFrom(t tester, text string) map[Layer]config.Object {
	t.Helper()
	out := map[Layer]config.Object{}
	for _, one := range strings.Split(text, "; ") {
		name, document, _ := strings.Cut(one, "=")
		out[layer(t, name)] = doc(t, document)
	}
	return out
}

func layer(t tester, name string) Layer {
	t.Helper()
	l, err := ParseLayer(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// tell formats a state in the syntax of layersFrom, the documents in one line.
func tell(t tester, s State) string {
	t.Helper()
	all, err := s.AllLayers()
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]string, len(all))
	for i, v := range all {
		lines[i] = v.Layer.String() + "=" + short(v.Document)
	}
	return strings.Join(lines, "; ")
}

func short(v any) string {
	text := string(config.AppendCanonical(nil, v))
	return strings.NewReplacer("\n", "", " ", "").Replace(text)
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

func equal[T comparable](t tester, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// tester is a *testing.T, a *testing.B or a *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}
