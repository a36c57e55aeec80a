package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"edgespan/config/fleet"
	"edgespan/config/fleet/bisect"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
	"edgespan/config/layers"
)

// TestARestoreThatDiesIsRunAgain ends a restore after each of its transactions: the mark shows it, no backup of half a
// fleet can be made, and the next run leaves the same as a single run.
func TestARestoreThatDiesIsRunAgain(t *testing.T) {
	old := small(t)
	for i := range 3*maxOps + 5 {
		store(t, old, kv.Key(fmt.Sprintf("objects/%04d", i)), []byte{byte(i)})
	}
	c := read(t, taken(t, old))
	clean := kv.NewModel()
	bring(t, clean, c, "a", ever)
	other := read(t, taken(t, small(t)))
	for dies := 1; ; dies++ {
		m := kv.NewModel()
		if bring(t, m, c, "a", dies) {
			if dies < 5 {
				t.Errorf("it took %d transactions", dies)
			}
			return
		}
		if e, _, _ := m.Get(history.RestoringKey()); !e.Exists() {
			break // the last transaction was done, and its answer was lost
		}
		if _, err := Open(reader{m}, Header{}); !errors.Is(err, ErrRestoring) {
			t.Fatalf("after %d: a backup of half a fleet: %v", dies, err)
		}
		bring(t, m, other, "b", dies%3+1) // another file, interrupted too
		if !bring(t, m, c, "c", ever) {
			t.Fatal("it did not end")
		}
		if d := cmp.Diff(values(t, clean), values(t, m)); d != "" {
			t.Fatalf("after %d: %s", dies, d)
		}
	}
}

// TestTwoRestoresAtOnce lets a second run take over: the first writes nothing more.
func TestTwoRestoresAtOnce(t *testing.T) {
	m, c := kv.NewModel(), read(t, taken(t, small(t)))
	first, _ := c.Restore(Mark{ID: "a"})
	o, err := m.Commit(first.Begin(kv.Entry{}))
	if err != nil || !o.Succeeded {
		t.Fatal(o, err)
	}
	second, _ := c.Restore(Mark{ID: "b"})
	if o, err := m.Commit(second.Begin(kv.Entry{})); err != nil || o.Succeeded {
		t.Errorf("a second one began as if there were none: %+v, %v", o, err)
	}
	have, at, _ := m.Get(history.RestoringKey())
	if o, err := m.Commit(second.Begin(have)); err != nil || !o.Succeeded {
		t.Fatal(o, err)
	}
	first.SetTarget(newStore)
	txn, _, _ := first.Next(at)
	if o, err := m.Commit(txn); err != nil || o.Succeeded {
		t.Errorf("the first went on: %+v, %v", o, err)
	}
	if got := values(t, m); len(got) != 1 {
		t.Error(got)
	}
}

// TestNoRestoreIntoAFleet restores where a controller has already created a fleet.
func TestNoRestoreIntoAFleet(t *testing.T) {
	c := read(t, taken(t, small(t)))
	for _, k := range []kv.Key{history.FleetKey(), history.HeadKey()} {
		m := kv.NewModel()
		store(t, m, k, []byte("x"))
		r, _ := c.Restore(Mark{ID: "a"})
		if o, err := m.Commit(r.Begin(kv.Entry{})); err != nil || o.Succeeded {
			t.Errorf("%s: %+v, %v", k, o, err)
		}
	}
}

// TestTheOrderOfRevisionsStays draws stores that contain rollouts: which keys were written before a rollout's record,
// which after it, and which a barrier holds back, is the same after a restore.
func TestTheOrderOfRevisionsStays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		old, written := kv.NewModel(), map[kv.Key]kv.Revision{}
		barriers := map[kv.Key]kv.Revision{}
		for range rapid.IntRange(1, 60).Draw(rt, "writes") {
			switch n := rapid.IntRange(0, 9).Draw(rt, "kind"); {
			case n < 6:
				txn := kv.Txn{}
				for _, id := range rapid.SliceOfNDistinct(rapid.IntRange(0, 20), 1, 4, rapid.ID[int]).Draw(rt, "nodes") {
					text, _ := json.Marshal(fleet.Counted{Generation: fleet.Generation{Authority: oldStore, Counter: 3}})
					txn.Then = append(txn.Then, kv.Put(history.GenerationKey(fmt.Sprint(id)), text))
				}
				o, err := old.Commit(txn)
				if err != nil {
					rt.Fatal(err)
				}
				for _, op := range txn.Then {
					written[op.Key] = o.Revision
				}
			default:
				k := history.RolloutKey(fmt.Sprintf("%016x", rapid.IntRange(1, 3).Draw(rt, "rollout")))
				_, now, _ := old.Get(k)
				record := map[string]any{"revision": 1, "machine": map[string]any{"x": n}}
				delete(barriers, k)
				if now > 0 && n > 7 {
					barriers[k] = kv.Revision(rapid.Uint64Range(1, uint64(now)).Draw(rt, "barrier"))
					record["barrier"] = barriers[k]
				}
				written[k] = store(t, old, k, record)
			}
		}
		m := kv.NewModel()
		bring(t, m, read(t, taken(t, old)), "a", ever)
		for a, before := range written {
			now, _, _ := m.Get(a)
			for k, record := range written {
				if history.InRollouts.Has(k) && k != a && before != record {
					if at, _, _ := m.Get(k); (before < record) != (now.ModRevision < at.ModRevision) {
						rt.Fatalf("%s at %d and %s at %d are now at %d and %d", a, before, k, record, now.ModRevision, at.ModRevision)
					}
				}
			}
			for k, barrier := range barriers {
				if e, _, _ := m.Get(k); history.InGenerations.Has(a) &&
					(before <= barrier) != (now.ModRevision <= barrierOf(line{Key: k, Value: e.Value})) {
					rt.Fatalf("%s at %d, barrier %d: now at %d, barrier %d", a, before, barrier, now.ModRevision,
						barrierOf(line{Key: k, Value: e.Value}))
				}
			}
		}
	})
}

// TestNodesOfTheOldStore connects nodes to a controller on the restored store. A node that runs its desired config gets
// only the number; one with a later config than the backup gets the backup's; none mistakes an old number or attempt
// for a current one.
func TestNodesOfTheOldStore(t *testing.T) {
	m := kv.NewModel()
	bring(t, m, read(t, taken(t, small(t))), "a", ever)
	e, _, _ := m.Get(history.PushKey(nodeOne))
	memory, err := fleet.ParseMemory(e.Value)
	if err != nil {
		t.Fatal(err)
	}
	e, _, _ = m.Get(history.GenerationKey(nodeOne))
	var stored fleet.Counted
	if err := json.Unmarshal(e.Value, &stored); err != nil {
		t.Fatal(err)
	}
	same := fleet.Digest{Config: "d1"}
	counted, changed, err := stored.Allocate(newStore, same)
	if err != nil || changed {
		t.Fatalf("the first start counts anew: %+v, %v", counted, err)
	}
	yes, v := true, layers.Versions{Software: "EDGESPAN-0-1-0"}
	for _, c := range []struct {
		what  string
		runs  fleet.Digest
		whole bool
	}{{"the same config", same, false}, {"a later one", fleet.Digest{Config: "d9"}, true}} {
		n := fleet.New("n1", memory, fleet.Defaults("r1"))
		n.Step(noon, fleet.Known{Topology: true, Joined: true})
		n.Step(noon, fleet.Desired{Digest: counted.Digest, Generation: counted.Generation, For: v, Managed: true})
		n.Step(noon, fleet.Connected{Stream: "r1/1", Replica: "r1"})
		var pushes []fleet.Push
		later := noon.Add(time.Hour)
		for _, effect := range n.Step(later, fleet.ReportReceived{
			Stream: "r1/1", Digest: c.runs, Generation: fleet.Generation{Authority: oldStore, Counter: 9}, Versions: v,
			Managed: &yes,
		}) {
			if p, ok := effect.(fleet.Push); ok {
				pushes = append(pushes, p)
			}
		}
		if len(pushes) != 1 || pushes[0].Whole != c.whole ||
			pushes[0].Generation != (fleet.Generation{Authority: newStore, Counter: 1}) {
			t.Errorf("%s: %+v, %v", c.what, pushes, n.Explain(later))
			continue
		}
		if c.whole && pushes[0].Attempt <= 1000 {
			t.Errorf("%s: attempt %d may have been used after the backup", c.what, pushes[0].Attempt)
		}
	}
}

// large is a backup of many keys of 256 KiB, at most one of which is in memory.
type large struct {
	keys  int
	lines [2][]byte // first and last
	one   []byte    // the line of a key, without its number
	size  int64
}

func newLarge(t *testing.T, keys int) *large {
	t.Helper()
	text := func(v any) []byte {
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return append(out, '\n')
	}
	l := &large{keys: keys, one: text(line{"objects/00000000", 1, bytes.Repeat([]byte("x"), 256<<10)})}
	l.lines[0] = text(Header{Kind: kind, Format: Format, Version: "1", Store: oldStore, Revision: 1, Time: noon,
		Keys: keys})
	sum := sha256.New()
	sum.Write(l.lines[0])
	for i := range keys {
		sum.Write(l.line(i))
	}
	l.lines[1] = text(last{&keys, hex.EncodeToString(sum.Sum(nil))})
	l.size = int64(len(l.lines[0]) + keys*len(l.one) + len(l.lines[1]))
	return l
}

func (l *large) line(i int) []byte {
	copy(l.one[len(`{"key":"objects/`):], fmt.Sprintf("%08d", i))
	return l.one
}

// ReadAt reads what the file would have there.
func (l *large) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) {
		rest, first := at+int64(n), int64(len(l.lines[0]))
		var from []byte
		switch i := (rest - first) / int64(len(l.one)); {
		case rest < first:
			from = l.lines[0][rest:]
		case i < int64(l.keys):
			from = l.line(int(i))[(rest-first)%int64(len(l.one)):]
		case rest < l.size:
			from = l.lines[1][rest-first-int64(l.keys*len(l.one)):]
		default:
			return n, io.EOF
		}
		n += copy(p[n:], from)
	}
	return n, nil
}

// TestARestoreIsNoFleetInMemory holds what a restore keeps in memory against the size of its largest
// keys, not of its file.
func TestARestoreIsNoFleetInMemory(t *testing.T) {
	l := newLarge(t, 64)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	c, err := Read(io.NewSectionReader(l, 0, l.size))
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Restore(Mark{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	limit, written := heap(), 0
	for at := kv.Revision(1); ; at++ {
		txn, more, err := r.Next(at)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
		for _, op := range txn.Then {
			written += len(op.Value)
		}
		limit = max(limit, heap())
	}
	if written != l.keys*256<<10 {
		t.Errorf("%d bytes were written", written)
	}
	if grown := int64(limit) - int64(before); grown > 8<<20 {
		t.Errorf("must be a backup of %d MB takes %d MB of memory, 8", l.size>>20, grown>>20)
	}
}

// TestAFileThatChangesMeanwhile restores nothing that was not checked.
func TestAFileThatChangesMeanwhile(t *testing.T) {
	text := taken(t, small(t))
	c := read(t, text)
	r, err := c.Restore(Mark{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	text[bytes.Index(text, []byte(`"value":"`))+10] ^= 1
	for {
		_, more, err := r.Next(1)
		if err != nil {
			return
		}
		if !more {
			t.Fatal("what was changed meanwhile is restored")
		}
	}
}

// A search that a backup caught in the middle pushes no more tests from the restored store.
func TestARestoreEndsSearches(t *testing.T) {
	for phase, want := range map[string]string{bisect.Testing: "undoing aborted", bisect.Ended: "ended "} {
		text, err := json.Marshal(bisect.Record{Phase: phase, Test: &bisect.Test{}, Candidates: make([]bisect.Candidate, 2), Hi: 1})
		if err != nil {
			t.Fatal(err)
		}
		var r bisect.Record
		l := line{Key: history.BisectKey(nodeOne), Value: text}
		if err := json.Unmarshal((&Restore{}).newValue(l), &r); err != nil {
			t.Fatal(err)
		}
		_, tests := r.Pin()
		if got := r.Phase + " " + r.Result; got != want || tests {
			t.Errorf("a search that is %s: %s", phase, got)
		}
	}
}
