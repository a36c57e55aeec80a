package configdb

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/kv"
)

// said is a write that a test made, by the message that names it in the history.
type said struct {
	mu     sync.Mutex
	writes map[string]model.Write
}

// plainModel is what the records must hold: documents as maps, by resource and node.
type plainModel struct {
	docs     map[string]map[string]any
	versions map[string]uint64
}

func placeOf(t model.Target) string { return fmt.Sprint(t.Resource.Name, " ", t.Levels) }

// apply does a write on the model, and says which document it changed.
func (m *plainModel) apply(t *testing.T, w model.Write) string {
	t.Helper()
	switch w := w.(type) {
	case model.Put:
		var doc map[string]any
		if err := json.Unmarshal(w.Value, &doc); err != nil {
			t.Fatal(err)
		}
		m.docs[placeOf(w.Target)] = doc
		return placeOf(w.Target)
	case model.EditKeys:
		doc := map[string]any{}
		for k, v := range m.docs[placeOf(w.Target)] {
			doc[k] = v
		}
		for _, item := range w.Edit.Items {
			var key string
			if err := json.Unmarshal(item[0], &key); err != nil {
				t.Fatal(err)
			}
			var value any
			if err := json.Unmarshal(item[1], &value); err != nil {
				t.Fatal(err)
			}
			doc[key] = value
		}
		m.docs[placeOf(w.Target)] = doc
		return placeOf(w.Target)
	}
	t.Fatalf("the history has a %T", w)
	return ""
}

// replay follows the history from a revision on and compares: each revision is one write that was made, once;
// versions rise by one; and what stands in the store is what the writes make in that order, at each version.
func replay(t *testing.T, k *Keeper, s *said, after uint64, acknowledged map[string]uint64) {
	t.Helper()
	records, err := k.Records(t.Context(), model.RecordsQuery{})
	if err != nil {
		t.Fatal(err)
	}
	m := plainModel{docs: map[string]map[string]any{}, versions: map[string]uint64{}}
	seen := map[string]bool{}
	want := after
	for i := len(records) - 1; i >= 0; i-- {
		r := records[i]
		if r.Revision <= after {
			continue
		}
		if want++; r.Revision != want {
			t.Fatalf("revision %d follows on %d", r.Revision, want-1)
		}
		if seen[r.Message] {
			t.Fatalf("write %s took place twice", r.Message)
		}
		seen[r.Message] = true
		place := m.apply(t, s.writes[r.Message])
		m.versions[place]++
		target := targetOf(s.writes[r.Message])
		for _, c := range r.Changes {
			if c.What == string(model.Values) && c.Version != m.versions[place] {
				t.Fatalf("revision %d made version %d of %s, want %d", r.Revision, c.Version, place, m.versions[place])
			}
		}
		a := get(t, k, model.Query{Target: target, Version: m.versions[place]})
		equals(t, a.Body, m.docs[place], fmt.Sprintf("version %d of %s", m.versions[place], place))
		if rev, ok := acknowledged[r.Message]; ok && rev != r.Revision {
			t.Errorf("write %s was told revision %d, and has %d", r.Message, rev, r.Revision)
		}
	}
	for message := range acknowledged {
		if !seen[message] {
			t.Errorf("write %s was acknowledged and is lost", message)
		}
	}
	if now := k.d.shown.now.Load().Revision(); now != want {
		t.Errorf("the facts are at %d, the history ends at %d", now, want)
	}
}

func targetOf(w model.Write) model.Target {
	switch w := w.(type) {
	case model.Put:
		return w.Target
	case model.EditKeys:
		return w.Target
	}
	return model.Target{}
}

// equals compares a document with one of the model.
func equals(t *testing.T, body []byte, want map[string]any, what string) {
	t.Helper()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(body) != string(text) {
		t.Errorf("%s is %s, want %s", what, body, text)
	}
}

func setKey(resource, key string, value int, levels ...model.LevelValue) model.EditKeys {
	name, _ := json.Marshal(key)
	return model.EditKeys{
		Target: at(resource, levels...), Kind: model.Values, Register: true,
		Edit: configdb.KeysEdit{Op: configdb.KeysSet, Items: [][]configdb.JSON{{name, configdb.JSON(fmt.Sprint(value))}}},
	}
}

// TestWritersLoseNothing lets a hundred goroutines write through two replicas: keys operations on one record and
// uploads to many. Nothing is lost and nothing happens twice, each reader sees what it wrote at once through the
// other replica, and the answers of some of the store's transactions, and some transactions, never arrive.
func TestWritersLoseNothing(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		t.Run(fmt.Sprintf("lossy=%v", lossy), func(t *testing.T) {
			stores(t, func(t *testing.T, s Store) { writers(t, s, lossy) })
		})
	}
}

func writers(t *testing.T, s Store, lossy bool) {
	ways := []*way{{Store: s}, {Store: s}}
	replicas := []*Keeper{start(t, ways[0]), start(t, ways[1])}
	found(t, replicas[0], []string{"nodes"}, "astute", "globals")
	after := replicas[0].d.shown.now.Load().Revision()
	if lossy {
		for _, w := range ways {
			w.set(func(w *way) {
				w.lose = func(kv.Txn) (bool, bool) { return rand.IntN(10) == 0, rand.IntN(5) == 0 }
			})
		}
	}
	said := &said{writes: map[string]model.Write{}}
	var mu sync.Mutex
	acknowledged := map[string]uint64{}
	var all sync.WaitGroup
	for g := range 100 {
		all.Go(func() {
			for n := range 5 {
				owned, other := replicas[(g+n)%2], replicas[(g+n+1)%2]
				var w model.Write = setKey("astute", fmt.Sprintf("k%d", g), n, node("shared"))
				if g%2 == 1 {
					w = put("globals", fmt.Sprintf(`{"by":%d,"n":%d}`, g, n), node(fmt.Sprint(g%10)))
				}
				message := fmt.Sprint(g, "/", n)
				said.mu.Lock()
				said.writes[message] = w
				said.mu.Unlock()
				out, err := owned.Write(context.Background(), configdbapi.WriteRequest{Author: "alice", Message: message, Write: w})
				if err != nil {
					t.Errorf("write %s: %v", message, err)
					return
				}
				if out.Changed {
					mu.Lock()
					acknowledged[message] = out.Revision
					mu.Unlock()
				}
				if g%2 == 0 {
					a, err := other.Answer(context.Background(),
						model.Query{Target: targetOf(w), Kind: model.Values, Key: []string{fmt.Sprintf("k%d", g)}}, nil)
					if err != nil || string(a.Body) != fmt.Sprint(n) {
						t.Errorf("after write %s the other replica has %s, %v", message, a.Body, err)
					}
				}
			}
		})
	}
	all.Wait()
	replay(t, replicas[1], said, after, acknowledged)
	if last := get(t, replicas[0], model.Query{Target: at("astute", node("shared"))}); last.Version != 250 {
		t.Errorf("the shared record has %d versions of 250 writes", last.Version)
	}
}

// TestALostAnswer loses what the store says of a transaction that it did, while another replica writes at once: the
// write is known by its record, and is not done again.
func TestALostAnswer(t *testing.T) {
	onClock(t, func(t *testing.T) {
		m := newMemory()
		w := &way{Store: m}
		a, b := start(t, w), start(t, m)
		found(t, a, []string{"nodes"}, "astute")
		write(t, a, put("astute", `{"n":0}`))
		for i := range 3 {
			lost := false
			w.set(func(w *way) {
				w.lose = func(kv.Txn) (bool, bool) {
					if lost {
						write(t, b, setKey("astute", "other", i+100)) // before it is asked again
						w.set(func(w *way) { w.lose = nil })
						return false, false
					}
					lost = true
					return false, true
				}
			})
			out := write(t, a, setKey("astute", "n", i+1))
			if want := uint64(2*i + 2); out.Version != want || !out.Changed {
				t.Errorf("write %d is told version %d, want %d: %+v", i, out.Version, want, out)
			}
			if got := get(t, b, model.Query{Target: at("astute")}); string(got.Body) != fmt.Sprintf(`{"n":%d,"other":%d}`, i+1,
				i+100) {
				t.Errorf("the store has %s", got.Body)
			}
		}
		if got := get(t, b, model.Query{Target: at("astute")}); got.Version != 7 {
			t.Errorf("there are %d versions of 7 writes", got.Version)
		}
	})
}

// large is a write that no transaction has room for: documents of noise.
func large(n int) model.Bulk {
	var b model.Bulk
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range 40 {
		noise := make([]byte, 100<<10)
		for j := range noise {
			noise[j] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[rng.IntN(64)]
		}
		b.Writes = append(b.Writes, put("astute", fmt.Sprintf(`{"n":%d,"noise":"%s"}`, n, noise), node(fmt.Sprint(i))))
	}
	return b
}

// TestALargeWriteIsWholeOrNot cuts a replica off after each of the transactions of a large write in turn. Another one
// sees all of it or nothing, and writes on; and so does one that is started anew.
func TestALargeWriteIsWholeOrNot(t *testing.T) {
	onClock(t, func(t *testing.T) {
		done := false
		for cut := 1; !done; cut++ {
			m := newMemory()
			w := &way{Store: m}
			a, b := start(t, w), start(t, m)
			found(t, a, []string{"nodes"}, "astute")
			write(t, a, put("astute", `{"n":0}`, node("39")))
			n := 0
			w.set(func(w *way) {
				w.lose = func(kv.Txn) (bool, bool) {
					n++
					if n > cut {
						w.set(func(w *way) { w.cut = true })
					}
					return n > cut, n > cut
				}
			})
			_, err := a.Write(t.Context(), configdbapi.WriteRequest{Author: "alice", Write: large(cut)})
			done = n <= cut
			if err != nil && !isFault(err, model.Busy) {
				t.Fatal(err)
			}
			c := start(t, m)
			whole := 0
			for i := range 40 {
				for _, k := range []*Keeper{b, c} {
					a, err := k.Answer(t.Context(),
						model.Query{Target: at("astute", node(fmt.Sprint(i))), Kind: model.Values, Key: []string{"n"}}, nil)
					if err == nil && string(a.Body) == fmt.Sprint(cut) {
						whole++
					}
				}
			}
			if whole != 0 && whole != 80 || err == nil && whole != 80 {
				t.Errorf("cut after %d transactions it shows in %d of 80 places, and the write is %v", cut, whole, err)
			}
			for i, k := range []*Keeper{b, c} {
				write(t, k, put("astute", fmt.Sprintf(`{"n":%d}`, 1000+i), node("0")))
				if got := get(t, b, model.Query{Target: at("astute", node("0"))}); string(got.Body) != fmt.Sprintf(`{"n":%d}`,
					1000+i) {
					t.Errorf("later it has %.40s", got.Body)
				}
			}
			if whole == 80 {
				a, err := c.Answer(t.Context(),
					model.Query{Target: at("astute", node("7")), Kind: model.Values, Key: []string{"n"}}, nil)
				if err != nil || string(a.Body) != fmt.Sprint(cut) {
					t.Errorf("a large write is gone after the next: %s, %v", a.Body, err)
				}
			}
			for _, k := range []*Keeper{a, b, c} {
				stop(t, k)
			}
		}
	})
}

// TestWhatNodesUploadIsSweptBeforeItsTime has a node upload more than a sweep is worth: what is older goes without
// the hour's wait, and what people upload waits for it.
func TestWhatNodesUploadIsSweptBeforeItsTime(t *testing.T) {
	onClock(t, func(t *testing.T) {
		m := newMemory()
		k := start(t, m, func(o *Options) { o.KeepOwn, o.sweepAfter = 2, 1000 })
		found(t, k, []string{"nodes"}, "astute")
		began := time.Now()
		versions := func() int {
			synctest.Wait()
			all, err := k.Versions(t.Context(), model.VersionsQuery{Target: at("astute", node("1")), Kind: model.Values})
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		for _, own := range []bool{false, true} {
			for i := range 20 {
				w := configdbapi.WriteRequest{Author: "node 1", Own: own,
					Write: put("astute", fmt.Sprintf(`{"own":%v,"n":%d,"text":%q}`, own, i, strings.Repeat("x", 200)), node("1"))}
				if _, err := k.Write(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
			if n := versions(); own && n > 10 || !own && n != 20 {
				t.Errorf("of 20 versions, a node's: %v, %d are left", own, n)
			}
		}
		if time.Since(began) > time.Minute {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}
