package history

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/kv"
	"edgespan/config/layers"
	"edgespan/config/layers/override"
)

func TestAWriteIsARevisionWithAuthorTimeAndMessage(t *testing.T) {
	s := newStore()
	s.write(t, Change{Message: "first", Layers: layersFrom(t, `network={"a":1}`)})
	s.write(t, Change{Author: "bob", Message: "second", Layers: layersFrom(t, `node/n1={"b":2}; network={"a":2}`)})
	state := s.head(t)
	equal(t, "layers", tell(t, state), `network={"a":2}; node/n1={"b":2}`)
	log := ok(state.Log(0))(t)
	equal(t, "records", len(log), 2)
	equal(t, "newest", log[0].String(), `revision 2 by bob at 2026-03-01T12:00:00Z ("second")`)
	equal(t, "parent", log[0].Parent, 1)
	equal(t, "oldest", log[1].String(), `revision 1 by alice at 2026-03-01T12:00:00Z ("first")`)
	equal(t, "limited", len(ok(state.Log(1))(t)), 1)
	equal(t, "as it was", tell(t, ok(At(s, 1))(t)), `network={"a":1}`)
	equal(t, "before the first", tell(t, ok(At(s, 0))(t)), "")
	if _, err := At(s, 3); err == nil ||
		err.Error() != "revision 3: not found: must be a revision that the history shows" {
		t.Errorf("a revision to come: %v", err)
	}
}

func TestAWriteThatSaysNothingNewIsNoRevision(t *testing.T) {
	s := newStore()
	s.write(t, Change{Layers: layersFrom(t, `network={"a":1}`)})
	p := ok(s.head(t).Plan(signed(Change{Layers: layersFrom(t, `network={"a":1.0}; node/n1=`)})))(t)
	equal(t, "transactions", len(p.Txns), 0)
	equal(t, "revision", p.Record.Number, 1)
}

func TestADeletedLayerSaysWhenAndByWhom(t *testing.T) {
	s := newStore()
	s.write(t, Change{Layers: layersFrom(t, `node/n1={}`)})
	s.write(t, Change{Author: "bob", Layers: layersFrom(t, `node/n1=`)})
	v := ok(s.head(t).Layer(Layer{Node, "n1"}))(t)
	equal(t, "revision", v.Revision, 2)
	equal(t, "document", v.Document == nil, true)
	equal(t, "all", tell(t, s.head(t)), "")
	equal(t, "never written", ok(s.head(t).Layer(Layer{Node, "n2"}))(t).Revision, 0)
}

func TestOfTwoOperatorsOneWinsAndTheOtherIsToldByWhom(t *testing.T) {
	s := newStore()
	s.write(t, Change{Layers: layersFrom(t, `network={"a":1}`)})
	network := Layer{Kind: Network}
	both := s.head(t)
	bound := map[Layer]uint64{network: 1}
	first := ok(both.Plan(signed(Change{Author: "bob", Message: "mine", Layers: layersFrom(t, `network={"a":2}`),
		IfMatch: bound})))(t)
	second := ok(both.Plan(signed(Change{Author: "carol", Layers: layersFrom(t, `network={"a":3}`), IfMatch: bound})))(t)
	if err := s.runPlan(first, 1); err != nil {
		t.Fatal(err)
	}
	equal(t, "the second", errors.Is(s.runPlan(second, 1), errMoved), true)
	_, err := s.head(t).Plan(signed(Change{Author: "carol", Layers: layersFrom(t, `network={"a":3}`), IfMatch: bound}))
	var conflicts Conflicts
	if !errors.As(err, &conflicts) || conflicts[0].By.Author != "bob" || conflicts[0].By.Number != 2 {
		t.Fatalf("no conflict: %v", err)
	}
	equal(t, "words", err.Error(),
		`network: was written by revision 2 by bob at 2026-03-01T12:00:00Z ("mine"): the write is bound to revision 1 of it`)
	equal(t, "state", tell(t, s.head(t)), `network={"a":2}`)

	// On another layer it is validated again and passes.
	s.write(t, Change{Author: "carol", Layers: layersFrom(t, `node/n1={}`),
		IfMatch: map[Layer]uint64{{Node, "n1"}: 0, network: 2}})
	_, err = s.head(t).Plan(signed(Change{Layers: layersFrom(t, `node/n2={}`),
		IfMatch: map[Layer]uint64{{Node, "n2"}: 4, network: 1}}))
	equal(t, "both", strings.Count(fmt.Sprint(err), "\n"), 1)
	equal(t, "never written",
		strings.Contains(fmt.Sprint(err), "node/n2: was never written: must be revision 0, not 4"), true)
}

func TestALeaderThatWasReplacedWritesNothing(t *testing.T) {
	s := newStore()
	outcome := ok(s.Commit(kv.Txn{Then: []kv.Op{kv.Put(ElectionKey("optimizer"), []byte("a"))}}))(t)
	fence := kv.Leadership{Key: ElectionKey("optimizer"), Revision: outcome.Revision}.Fence()
	c := signed(Change{Layers: layersFrom(t, `auto/n1={"a":1}`), Compares: []kv.Compare{fence}})
	s.write(t, c)
	c.Layers = layersFrom(t, `auto/n1={"a":2}`)
	p := ok(s.head(t).Plan(c))(t)
	ok(s.Commit(kv.Txn{Then: []kv.Op{kv.Put(ElectionKey("optimizer"), []byte("b"))}}))(t)
	equal(t, "refused", errors.Is(s.runPlan(p, 1), errMoved), true)
}

func TestWhatPlanRefuses(t *testing.T) {
	s := newStore()
	s.write(t, Change{Layers: layersFrom(t, `network={}`)})
	for _, c := range []struct {
		name string
		s    State
		c    Change
		want string
	}{
		{"no author", s.head(t), Change{}, "author: required"},
		{"an old state", ok(At(s, 1))(t), Change{Author: "a"}, "is not the newest"},
		{"what can't be read again", s.head(t), Change{Author: "a",
			Layers: map[Layer]config.Object{{Kind: Network}: {"a": "\xff"}}}, "network: not UTF-8"},
	} {
		if _, err := c.s.Plan(c.c); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestAWriteOfEditBecomesLayers(t *testing.T) {
	w := override.Inputs{Network: config.Object{},
		Nodes: map[string]override.Node{"n1": {Own: config.Object{"a": int64(1)}}, "n2": {}}}
	for _, c := range []struct {
		change override.Change
		want   string
	}{
		{override.Change{Layer: layers.Network, Op: override.Modify, Overrides: doc(t, `{"x":1}`)}, `network={"x":1}`},
		{override.Change{Layer: layers.Node, Op: override.Set, Overrides: doc(t, `{"n2":{"x":1}}`)}, `node/n2={"x":1}`},
		{override.Change{Layer: layers.Node, Op: override.Unset, Keys: [][]string{{"n1"}}}, `node/n1=`},
		{override.Change{Layer: layers.Network, Op: override.Set, Overrides: config.Object{}}, ``},
	} {
		r, faults := override.Apply(w, c.change)
		if faults != nil {
			t.Fatal(faults)
		}
		s := newStore()
		s.write(t, Change{Layers: layersFrom(t, `node/n1={"a":1}`)})
		var got []string
		for l, d := range FromEdit(c.change.Layer, r) {
			text := ""
			if d != nil {
				text = short(d)
			}
			got = append(got, l.String()+"="+text)
		}
		equal(t, "layers", strings.Join(got, "; "), c.want)
	}
}

// many is a write of n node layers.
func many(n int, value string) map[Layer]config.Object {
	out := map[Layer]config.Object{}
	for i := range n {
		out[Layer{Node, fmt.Sprintf("node-%05d", i)}] = config.Object{"name": fmt.Sprintf("%s %d", value, i)}
	}
	return out
}

func TestALargeWriteIsSeenWhenItsLastTransactionIsDone(t *testing.T) {
	s := newStore()
	s.write(t, Change{Layers: many(300, "old")})
	before := ok(s.head(t).Digest())(t)
	p := ok(s.head(t).Plan(signed(Change{Layers: many(300, "new")})))(t)
	if len(p.Txns) < 4 || p.Record.ChangeSet == "" {
		t.Fatalf("%d transactions of change-set %q", len(p.Txns), p.Record.ChangeSet)
	}
	for i, txn := range p.Txns {
		equal(t, fmt.Sprintf("digest before transaction %d", i), ok(s.head(t).Digest())(t), before)
		if outcome, err := s.Commit(txn); err != nil || !outcome.Succeeded {
			t.Fatal(outcome, err)
		}
	}
	state := s.head(t)
	equal(t, "revision", state.Number, 2)
	for _, v := range ok(state.AllLayers())(t) {
		if !strings.HasPrefix(v.Document["name"].(string), "new") || v.Revision != 2 {
			t.Fatal(v)
		}
	}
	equal(t, "what is left of change-sets", len(ok(s.List(folderSets, kv.ListOptions{}))(t).Entries), 0)
}

// An object has at most chunkSize bytes, its first one included.
func TestADocumentThatJustFillsAnObject(t *testing.T) {
	empty := len(config.AppendCanonical(nil, config.Object{"a": ""}))
	for size, kind := range map[int]byte{chunkSize - 1: kindChunk, chunkSize: kindList} {
		o := objects{}
		hash, faults := o.putDocument(config.Object{"a": strings.Repeat("x", size-empty)})
		if len(faults) > 0 || o.fresh[hash][0] != kind {
			t.Errorf("%d bytes: %c, %v", size, o.fresh[hash][0], faults)
		}
		for _, value := range o.fresh {
			if len(value) > chunkSize {
				t.Errorf("%d bytes: an object of %d", size, len(value))
			}
		}
	}
}

// A tree node with one entry too many is split into nodes below it.
func TestAPieceOfATreeIsSplitWhenItIsFull(t *testing.T) {
	for n, split := range map[int]bool{maxEntries: false, maxEntries + 1: true} {
		var entries []entry
		for i := range n {
			entries = append(entries, entry{Layer: Layer{Node, fmt.Sprint(i)}, Revision: 1})
		}
		o := objects{}
		root, err := o.update("", 0, entries)
		if err != nil {
			t.Fatal(err)
		}
		p := ok(readPiece(root, o.fresh[root]))(t)
		equal(t, fmt.Sprint(n, " entries are split"), p.Below != nil, split)
	}
}

func TestADocumentOfManyMegabytes(t *testing.T) {
	s := newStore()
	list := make([]any, 60000)
	for i := range list {
		list[i] = fmt.Sprintf("an entry of about a hundred bytes, so that six megabytes come together, with number %020d", i)
	}
	s.write(t, Change{Layers: map[Layer]config.Object{{Kind: Topology}: {"list": list}}})
	v := ok(s.head(t).Layer(Layer{Kind: Topology}))(t)
	equal(t, "the same", config.Equal(v.Document, config.Object{"list": list}), true)
	for _, e := range ok(s.List("", kv.ListOptions{}))(t).Entries {
		if len(e.Value) > chunkSize {
			t.Errorf("%s has %d bytes", e.Key, len(e.Value))
		}
	}
}

func TestOneLayerOfManyCostsFewReadsAndBytes(t *testing.T) {
	s := newStore()
	s.write(t, Change{Layers: many(20000, "x")})
	s.gets = 0
	p := ok(s.head(t).Plan(signed(Change{Layers: layersFrom(t, `node/node-00007={}`)})))(t)
	if len(p.Txns) != 1 || p.Txns[0].Size() > 20<<10 || s.gets > 20 {
		t.Errorf("%d transactions, %d bytes, %d reads", len(p.Txns), p.Txns[0].Size(), s.gets)
	}
}

func TestABrokenObjectIsToldAndNotRead(t *testing.T) {
	s := newStore()
	s.write(t, Change{Layers: layersFrom(t, `network={"a":1}`)})
	for _, e := range ok(s.List(folderObjects, kv.ListOptions{}))(t).Entries {
		for _, c := range []struct {
			op   kv.Op
			want string
		}{
			{kv.Put(e.Key, []byte("ctorn")), "has other content"},
			{kv.Delete(e.Key), "is not there"},
			{kv.Put(e.Key, e.Value), ""},
		} {
			ok(s.Commit(kv.Txn{Then: []kv.Op{c.op}}))(t)
			_, err := s.head(t).AllLayers()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.want, err)
			}
		}
	}
}
