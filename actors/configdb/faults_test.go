package configdb

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/kv"
)

// TestAReadWaitsForWhatOthersWrote holds back what a replica is told by the store: a read there waits for what
// another has acknowledged, and is told to come again where that takes too long.
func TestAReadWaitsForWhatOthersWrote(t *testing.T) {
	onClock(t, func(t *testing.T) {
		m := newMemory()
		slow := &way{Store: m}
		a, b := start(t, m), start(t, slow)
		found(t, a, []string{"nodes"}, "astute")
		write(t, a, put("astute", `{"a":1}`))
		get(t, b, effective("astute"))
		hold := make(chan struct{})
		slow.set(func(w *way) { w.hold = hold })
		write(t, a, put("astute", `{"a":2}`))
		began := time.Now()
		if _, err := b.Answer(t.Context(), effective("astute"), nil); !isFault(err, model.Busy) ||
			time.Since(began) != readTimeout {
			t.Errorf("after %v the answer is %v, want busy after %v", time.Since(began), err, readTimeout)
		}
		time.AfterFunc(time.Second, func() { close(hold) })
		if got := get(t, b, effective("astute")); string(got.Body) != `{"a":2}` {
			t.Errorf("it was not waited for: %s", got.Body)
		}
	})
}

// TestAStoreThatIsAway cuts a replica off: it does not answer with what may be old, and goes on once it can.
func TestAStoreThatIsAway(t *testing.T) {
	onClock(t, func(t *testing.T) {
		m := newMemory()
		w := &way{Store: m}
		a, b := start(t, m), start(t, w)
		found(t, a, []string{"nodes"}, "astute")
		get(t, b, effective("astute"))
		w.set(func(w *way) { w.cut = true })
		w.breakWatch(errSevered)
		write(t, a, put("astute", `{"a":1}`))
		if _, err := b.Answer(t.Context(), effective("astute"), nil); !isFault(err, model.Busy) {
			t.Errorf("cut off, it answers %v", err)
		}
		if _, err := b.Write(t.Context(), configdbapi.WriteRequest{Author: "alice",
			Write: put("astute", `{"a":2}`)}); !isFault(err, model.Busy) || isUnsure(err) {
			t.Errorf("cut off, a write is %v", err)
		}
		w.set(func(w *way) { w.cut = false })
		if got := get(t, b, effective("astute")); string(got.Body) != `{"a":1}` {
			t.Errorf("it has %s", got.Body)
		}
	})
}

// TestAForgottenHistory compacts the store while a replica does not watch it, so that it has to read all again.
func TestAForgottenHistory(t *testing.T) {
	onClock(t, func(t *testing.T) {
		m := newMemory()
		w := &way{Store: m}
		a, b := start(t, m), start(t, w)
		found(t, a, []string{"nodes"}, "astute")
		write(t, a, put("astute", `{"a":1}`))
		get(t, b, effective("astute"))
		var heard []uint64
		go b.Watch(t.Context(), 0, func(r model.Record) error { heard = append(heard, r.Revision); return nil })
		synctest.Wait()
		w.breakWatch(errSevered)
		synctest.Wait()
		for i := range 5 {
			write(t, a, put("astute", fmt.Sprintf(`{"a":%d}`, i+2)))
		}
		_, now, _ := m.Get(t.Context(), model.HeadKey())
		if err := m.Compact(now); err != nil {
			t.Fatal(err)
		}
		if got := get(t, b, effective("astute")); string(got.Body) != `{"a":6}` {
			t.Errorf("it has %s", got.Body)
		}
		write(t, b, put("astute", `{"a":7}`))
		synctest.Wait()
		for i, r := range heard {
			if r != uint64(i+1) {
				t.Fatalf("who watches heard of %v", heard)
			}
		}
		if n := a.d.shown.now.Load().Revision(); uint64(len(heard)) != n {
			t.Errorf("who watches heard of %d revisions of %d", len(heard), n)
		}
	})
}

// TestAStoreThatWentBack gives a replica a store in which all that was kept is older, as after a restored backup.
func TestAStoreThatWentBack(t *testing.T) {
	onClock(t, func(t *testing.T) {
		m := newMemory()
		w := &way{Store: m}
		k := start(t, w)
		found(t, k, []string{"nodes"}, "astute")
		write(t, k, put("astute", `{"a":1}`))
		get(t, k, effective("astute"))
		empty := newMemory()
		w.set(func(w *way) { w.Store = empty })
		w.breakWatch(errSevered)
		time.Sleep(3 * storeBackoff)
		if _, err := k.Answer(t.Context(), effective("astute"), nil); !isFault(err, model.NotFound) {
			t.Errorf("it answers from the store before: %v", err)
		}
		found(t, k, []string{"nodes"}, "astute")
		write(t, k, put("astute", `{"a":2}`))
		if got := get(t, k, effective("astute")); string(got.Body) != `{"a":2}` {
			t.Errorf("it has %s", got.Body)
		}
	})
}

// TestACrashIsMended lets the store panic in the leaf of each actor: what waits is told, nothing else ends, and
// the next one works.
func TestACrashIsMended(t *testing.T) {
	onClock(t, func(t *testing.T) {
		w := &way{Store: newMemory()}
		k := start(t, w)
		found(t, k, []string{"nodes"}, "astute")
		for i := range 3 {
			w.set(func(w *way) { w.lose = func(kv.Txn) (bool, bool) { panic("disk") } })
			_, err := k.Write(t.Context(),
				configdbapi.WriteRequest{Author: "alice", Write: put("astute", fmt.Sprintf(`{"a":%d}`, i))})
			if !isUnsure(err) || !strings.Contains(err.Error(), "crashed") {
				t.Fatalf("the writer crashed, and the write is %v", err)
			}
			w.set(func(w *way) { w.lose = nil })
			write(t, k, put("astute", fmt.Sprintf(`{"a":%d}`, i)))
			w.set(func(w *way) { w.panics = true })
			w.breakWatch(errSevered)
			if got := get(t, k, effective("astute")); string(got.Body) != fmt.Sprintf(`{"a":%d}`, i) {
				t.Errorf("it has %s", got.Body)
			}
		}
	})
}

// startHeld is a Keeper with the resource astute whose writes stand still on their way to the store until hold is
// closed; came hears of each.
func startHeld(t *testing.T, came func()) (k *Keeper, hold chan struct{}) {
	t.Helper()
	w := &way{Store: newMemory()}
	k, hold = start(t, w), make(chan struct{})
	found(t, k, []string{"nodes"}, "astute")
	w.set(func(w *way) {
		w.lose = func(kv.Txn) (bool, bool) {
			if came != nil {
				came()
			}
			<-hold
			return false, false
		}
	})
	return k, hold
}

// TestTooManyWrites holds a write on its way to the store until as many wait as may, of one caller and of all. The
// one on its way counts.
func TestTooManyWrites(t *testing.T) {
	onClock(t, func(t *testing.T) {
		k, hold := startHeld(t, nil)
		answers := make(chan error, 2*maxWrites)
		queue := func(caller string, n int) {
			for i := range n {
				go func() {
					_, err := k.Write(context.Background(), configdbapi.WriteRequest{Author: caller,
						Write: put("astute", `{"by":"`+caller+`"}`, node(fmt.Sprint(i)))})
					answers <- err
				}()
				synctest.Wait()
			}
		}
		refused := func(what string, n int) {
			if len(answers) != n {
				t.Errorf("%s: %d writes were answered, want %d", what, len(answers), n)
			}
			for range len(answers) {
				if err := <-answers; !isFault(err, model.Busy) || isUnsure(err) {
					t.Errorf("%s: one is told %v", what, err)
				}
			}
		}
		queue("mallory", maxWrites/maxOfCaller)
		refused("as many as one caller may have", 0)
		queue("mallory", 10)
		refused("one caller has too many", 10)
		for i := range maxOfCaller - 1 {
			queue(fmt.Sprint("caller ", i), maxWrites/maxOfCaller)
		}
		refused("as many as all may have", 0)
		queue("alice", 10)
		refused("all have too many", 10)
		close(hold)
		for range maxWrites {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestOneCallersWritesAreServedInTurn has one caller flood the writer: the write of another comes in its turn, after
// one of the flood's transactions, and not after all of them.
func TestOneCallersWritesAreServedInTurn(t *testing.T) {
	onClock(t, func(t *testing.T) {
		k, hold := startHeld(t, nil)
		var all sync.WaitGroup
		revisions := make(map[string]uint64)
		var mu sync.Mutex
		send := func(caller, n string) {
			all.Go(func() {
				out, err := k.Write(context.Background(), configdbapi.WriteRequest{Author: "a name of all",
					Caller: caller, Write: put("astute", `{"by":"`+caller+`"}`, node(caller+n))})
				if err != nil {
					t.Errorf("write %s of %s: %v", n, caller, err)
				}
				mu.Lock()
				defer mu.Unlock()
				revisions[caller+n] = out.Revision
			})
			synctest.Wait()
		}
		for i := range 200 {
			send("mallory", fmt.Sprint(i))
		}
		send("alice", "0")
		send("bob", "0")
		send("alice", "1")
		close(hold)
		all.Wait()
		first := revisions["mallory0"] // that was alone in its transaction
		for name, limit := range map[string]uint64{"alice0": 3, "bob0": 3, "alice1": 6} {
			if after := revisions[name] - first; after > limit {
				t.Errorf("%s is done after %d others, want %d at most", name, after, limit)
			}
		}
	})
}

// TestCostlyWritesAreServedInTurn has each write of a flood cost as much as a plan may: no transaction has more than
// one of them, so that another caller's write waits for one.
func TestCostlyWritesAreServedInTurn(t *testing.T) {
	onClock(t, func(t *testing.T) {
		var writes atomic.Int64
		k, hold := startHeld(t, func() { writes.Add(1) })
		costly := costlyEdit()
		var all sync.WaitGroup
		after := int64(0)
		send := func(caller string, write model.Write) {
			all.Go(func() {
				if _, err := k.Write(context.Background(), configdbapi.WriteRequest{Author: caller, Write: write}); err != nil {
					t.Errorf("%s: %v", caller, err)
				}
				if caller == "alice" {
					after = writes.Load()
				}
			})
			synctest.Wait()
		}
		for i := range 4 {
			costly.Target = at("astute", node(fmt.Sprint(i)))
			send("mallory", costly)
		}
		send("alice", put("astute", `{"a":1}`, node("alice")))
		close(hold)
		all.Wait()
		if after != 2 || writes.Load() < 4 {
			t.Errorf("another's write was done with transaction %d, all of them with %d: want 2, and 4 at least", after,
				writes.Load())
		}
	})
}

// costlyEdit sets keys of a document of many, each before all that are there.
func costlyEdit() model.EditKeys {
	e := setKey("astute", "z", 1)
	var members strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&members, `"k%d":1,`, i)
	}
	e.Edit.Items = [][]configdb.JSON{{configdb.JSON(`"all"`), configdb.JSON("{" + members.String() + `"last":1}`)}}
	for i := range 1_500 {
		e.Edit.Items = append(e.Edit.Items,
			[]configdb.JSON{configdb.JSON(`"all"`), configdb.JSON(fmt.Sprintf(`"a%d"`, i)), configdb.JSON("1")})
	}
	return e
}

// TestAWriteNobodyWaitsForIsNotDone holds a write on its way while those behind it are given up: none of them is done.
func TestAWriteNobodyWaitsForIsNotDone(t *testing.T) {
	onClock(t, func(t *testing.T) {
		k, hold := startHeld(t, nil)
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i, of := range []context.Context{t.Context(), t.Context(), ctx, t.Context(), ctx} {
			all.Go(func() {
				_, err := k.Write(of,
					configdbapi.WriteRequest{Author: "alice", Write: put("astute", `{"a":1}`, node(fmt.Sprint(i)))})
				if (err != nil) != (of == ctx) {
					t.Errorf("write %d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		close(hold)
		all.Wait()
		records, err := k.Records(t.Context(), model.RecordsQuery{})
		if err != nil || len(records) != 5 { // two of found
			t.Errorf("the history has %d revisions, %v: want 5", len(records), err)
		}
	})
}

// TestAWriteIsNotWaitedForForEver has a store that never answers.
func TestAWriteIsNotWaitedForForEver(t *testing.T) {
	onClock(t, func(t *testing.T) {
		w := &way{Store: newMemory()}
		k := start(t, w)
		found(t, k, []string{"nodes"}, "astute")
		w.set(func(w *way) { w.lose = func(kv.Txn) (bool, bool) { return true, false } })
		began := time.Now()
		_, err := k.Write(t.Context(), configdbapi.WriteRequest{Author: "alice", Write: put("astute", `{"a":1}`)})
		if !isUnsure(err) || time.Since(began) > writeTimeout {
			t.Errorf("after %v it is %v", time.Since(began), err)
		}
		w.set(func(w *way) { w.lose = nil })
		write(t, k, put("astute", `{"a":2}`))
	})
}
