package configdb

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/kv"
	"edgespan/platform/store/bolt"
	"edgespan/platform/store/etcd"
	"edgespan/platform/store/etcd/etcdtest"
)

// TestMain compresses something: the encoder that all share makes a channel at its first use, which must not be in a
// bubble of a test.
func TestMain(m *testing.M) {
	k, err := Start(Options{Store: newMemory()})
	if err == nil {
		_, err = k.Write(context.Background(), configdbapi.WriteRequest{Author: "first",
			Write: model.CreateDefinition{Name: "first", Content: []byte(`{}`)}})
	}
	if err != nil {
		panic(err)
	}
	_ = k.Stop(context.Background())
	os.Exit(m.Run())
}

// memory is a store in memory, over the model that the real ones are held to.
type memory struct {
	mu    sync.Mutex
	model *kv.Model
	moved chan struct{} // is closed by the next transaction
}

func newMemory() *memory { return &memory{model: kv.NewModel(), moved: make(chan struct{})} }

func (m *memory) Get(_ context.Context, k kv.Key) (kv.Entry, kv.Revision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.model.Get(k)
}

func (m *memory) List(_ context.Context, p kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.model.List(p, o)
}

func (m *memory) Commit(_ context.Context, t kv.Txn) (kv.TxnResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, err := m.model.Commit(t)
	close(m.moved)
	m.moved = make(chan struct{})
	return o, err
}

func (m *memory) Compact(at kv.Revision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.model.Compact(at)
}

func (m *memory) Watch(ctx context.Context, p kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error {
	for {
		m.mu.Lock()
		moved := m.moved
		_, now, _ := m.model.Get("x")
		batches, err := m.model.Since(p, after)
		m.mu.Unlock()
		if err != nil {
			return err
		}
		for _, b := range batches {
			if err := deliver(b); err != nil {
				return err
			}
		}
		after = now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
	}
}

// errSevered is a way to the store that is cut.
var errSevered = errors.New("severed")

// way is a replica's way to the store, with what happens on it.
type way struct {
	Store
	mu   sync.Mutex
	cut  bool                        // nothing arrives
	lose func(t kv.Txn) (bool, bool) // of a transaction: it does not arrive, its answer does not
	gets int
	end  context.CancelFunc // of the watch that runs
	sick error              // with what that one ends
	hold chan struct{}      // what the watch tells waits for this
	// panics is that the next watch does.
	panics bool
}

// set changes what happens on the way.
func (w *way) set(f func(*way)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

// to is the store at its end.
func (w *way) to() Store {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Store
}

// asked is how often something was read.
func (w *way) asked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gets
}

func (w *way) state() (bool, func(kv.Txn) (bool, bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut, w.lose
}

func (w *way) Get(ctx context.Context, k kv.Key) (kv.Entry, kv.Revision, error) {
	if cut, _ := w.state(); cut {
		return kv.Entry{}, 0, errSevered
	}
	w.set(func(w *way) { w.gets++ })
	return w.to().Get(ctx, k)
}

func (w *way) List(ctx context.Context, p kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	if cut, _ := w.state(); cut {
		return kv.Page{}, errSevered
	}
	w.set(func(w *way) { w.gets++ })
	return w.to().List(ctx, p, o)
}

func (w *way) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	cut, lose := w.state()
	if cut {
		return kv.TxnResult{}, errSevered
	}
	before, after := false, false
	if lose != nil && t.Writes() {
		before, after = lose(t)
	}
	if before {
		return kv.TxnResult{}, errSevered
	}
	o, err := w.to().Commit(ctx, t)
	if after {
		return kv.TxnResult{}, errSevered
	}
	return o, err
}

func (w *way) Watch(ctx context.Context, p kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	cut, _ := w.state()
	if cut {
		return errSevered
	}
	w.mu.Lock()
	w.end = end
	panics := w.panics
	w.panics = false
	w.mu.Unlock()
	if panics {
		panic("watch")
	}
	err := w.to().Watch(ctx, p, after, func(b kv.Batch) error {
		w.mu.Lock()
		hold := w.hold
		w.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return deliver(b)
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sick != nil {
		err, w.sick = w.sick, nil
	}
	return err
}

// breakWatch ends the watch that runs with an error.
func (w *way) breakWatch(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sick = err
	w.end()
}

// start starts a replica on a store, until the test ends.
func start(t testing.TB, s Store, change ...func(*Options)) *Keeper {
	t.Helper()
	o := Options{Store: s}
	for _, f := range change {
		f(&o)
	}
	k, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, k) })
	return k
}

func stop(t testing.TB, k *Keeper) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := k.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// onBolt opens a store in a file.
func onBolt(t testing.TB, path string, sync bool) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, bolt.Options{UnsafeNoSync: !sync})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// stores are the kinds of stores that a test runs on.
func stores(t *testing.T, f func(*testing.T, Store)) {
	t.Run("model", func(t *testing.T) { f(t, newMemory()) })
	t.Run("bolt", func(t *testing.T) { f(t, onBolt(t, filepath.Join(t.TempDir(), "store"), false)) })
	t.Run("etcd", func(t *testing.T) {
		server, err := etcdtest.Serve(t.TempDir(), true)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		s, err := etcd.Open(t.Context(), etcd.Options{Endpoints: []string{server.Endpoint}, Fleet: "facts"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		f(t, s)
	})
}

// write does a write that is not refused.
func write(t testing.TB, k *Keeper, w model.Write) model.Written {
	t.Helper()
	out, err := k.Write(context.Background(), configdbapi.WriteRequest{Author: "alice", Message: "test", Write: w})
	if err != nil {
		t.Fatalf("write %+v: %v", w, err)
	}
	return out
}

// found makes an environment 1 with levels, and one component with resources, and answers with the ids of these.
func found(t testing.TB, k *Keeper, levels []string, resources ...string) map[string]int64 {
	t.Helper()
	c := model.CreateComponent{Name: "fuel"}
	for _, r := range resources {
		c.Definitions = append(c.Definitions, model.Definition{Name: r})
	}
	made := write(t, k, c)
	id := int64(1)
	write(t, k, model.CreateEnvironment{ID: &id, Components: []model.Ref{{ID: made.ID}}, Levels: levels})
	defs, err := k.Definitions(context.Background(), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, d := range defs {
		out[d.Name] = d.ID
	}
	return out
}

// at is a place of environment 1.
func at(resource string, levels ...model.LevelValue) model.Target {
	return model.Target{Environment: 1, Levels: levels, Resource: model.Ref{Name: resource}}
}

func node(n string) model.LevelValue { return model.LevelValue{Level: "nodes", Value: n} }

// get answers a query that is not refused.
func get(t testing.TB, k *Keeper, q model.Query) model.Answer {
	t.Helper()
	if q.Kind == "" {
		q.Kind = model.Values
	}
	a, err := k.Answer(context.Background(), q, nil)
	if err != nil {
		t.Fatalf("ask %+v: %v", q, err)
	}
	return a
}

// isFault says whether an error is a fault of a kind.
func isFault(err error, kind model.ErrorKind) bool {
	var f *model.RequestError
	return errors.As(err, &f) && f.Kind == kind
}

// isUnsure says whether an error is of a write that may have taken place.
func isUnsure(err error) bool {
	var f *model.RequestError
	return errors.As(err, &f) && f.Kind == model.Busy && f.Unsure
}

// listAll tells of all keys below facts/ and of the sizes of what they hold.
func listAll(t testing.TB, s Store, tell func(key string, value int)) {
	t.Helper()
	o := kv.ListOptions{Limit: 500}
	for {
		page, err := s.List(context.Background(), model.Below, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			tell(string(e.Key), len(e.Value))
			o.After = e.Key
		}
		if o.At = page.Revision; !page.More {
			return
		}
	}
}
