package model

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"edgespan/config/configdb"
	"edgespan/config/kv"
)

// noise is a document of about so many bytes that hardly compresses.
func noise(seed int64, size int) configdb.JSON {
	raw := make([]byte, size/2)
	rand.New(rand.NewSource(seed)).Read(raw)
	return configdb.JSON(`{"noise":"` + hex.EncodeToString(raw) + `"}`)
}

// TestALargeWriteIsSeenAsAWhole cuts a write of many records off behind each of its transactions: it is seen in
// full or not at all, also by who comes new, and whoever writes next brings it into its place.
func TestALargeWriteIsSeenAsAWhole(t *testing.T) {
	levels := func(i int) string { return fmt.Sprintf("9/nodes=%d/astute", i) }
	const nodes = 150
	bulk := Bulk{}
	for i := range nodes {
		bulk.Writes = append(bulk.Writes,
			Put{Target: target(levels(i)), Kind: Values, Value: noise(int64(i), 20<<10), Register: true})
	}
	first := noise(1007, 20<<10) // the newest version is known, and this one read
	bulk.Writes = append([]Write{Put{Target: target(levels(7)), Kind: Values, Value: first, Register: true}},
		bulk.Writes...)
	for cut, steps := 0, 1; cut <= steps; cut++ {
		d := fuel(t, "nodes")
		before := d.state
		p := ok(before.Plan([]QueuedWrite{{Write: bulk, Author: "a"}, {Write: DeleteEnvironment{9}, Author: "b"}},
			d.store))(t)
		equal(t, "it is a plan of its own", len(p.Results), 1)
		steps = len(p.Txns)
		at := ok(d.runPlan(p.Txns, cut))(t)
		followed, loaded := ok(d.follow(before))(t), ok(Load(d.store))(t)
		equal(t, "followed", show(followed), show(loaded))
		equal(t, "unfinished", loaded.Unfinished(), cut == steps)
		want := 0
		if cut == steps {
			want = nodes
		}
		equal(t, "records", loaded.environments[loaded.byID.environments[9]].records, want)
		if cut < steps {
			continue
		}
		equal(t, "planned", show(p.Next(at)), show(followed))
		equal(t, "what is on its way", fmt.Sprint(p.Next(at).overlay), fmt.Sprint(followed.overlay))
		d.state = followed
		equal(t, "before it is in its place", d.ask(Query{Target: target(levels(7)), Version: 1}), string(first))
		equal(t, "nothing else comes before",
			len(ok(followed.Plan([]QueuedWrite{{Write: DeleteEnvironment{9}, Author: "b"}}, d.store))(t).Results), 0)
		forward := followed.Forward()
		ok(d.runPlan(forward, 1))(t)
		d.state = ok(d.follow(followed))(t)
		equal(t, "somebody else's steps", len(d.state.Forward()), len(forward)-1)
		d.must(Put{Target: target(levels(nodes)), Kind: Values, Value: doc(t, `{}`), Register: true})
		loaded = ok(Load(d.store))(t)
		equal(t, "finished", loaded.Unfinished(), false)
		equal(t, "sets", len(loaded.sets), 0)
		equal(t, "records", loaded.environments[loaded.byID.environments[9]].records, nodes+1)
		equal(t, "its version", d.ask(Query{Target: target(levels(149)), Version: 1}), string(noise(149, 20<<10)))
	}
}

// TestALargeDocumentComesInChunks writes one that fits into no transaction, twice; the store keeps one.
func TestALargeDocumentComesInChunks(t *testing.T) {
	d := fuel(t, "nodes")
	big := noise(1, MaxDocument-100)
	p := ok(d.state.Plan([]QueuedWrite{{Write: Put{Target: target("9/astute"), Kind: Values, Value: big}, Author: "a"}},
		d.store))(t)
	if len(p.Txns) < 3 {
		t.Fatalf("%d transactions", len(p.Txns))
	}
	ok(d.runPlan(p.Txns, len(p.Txns)-1))(t) // and somebody else is faster
	d.put("9/globals", `{}`)
	p = ok(d.state.Plan([]QueuedWrite{{Write: Put{Target: target("9/astute"), Kind: Values, Value: big}, Author: "a"}},
		d.store))(t)
	equal(t, "what is stored is not stored again", len(p.Txns), 1)
	ok(d.runPlan(p.Txns, 1))(t)
	d.state = ok(d.follow(d.state))(t)
	equal(t, "read", d.ask(Query{Target: target("9/astute")}), string(big))
	equal(t, "too large", d.refused(Put{Target: target("9/astute"), Kind: Values, Value: noise(1, MaxDocument+100)})[:1],
		"5")

	sha := shaOf(big)
	e, _, _ := d.Model.Get(blobKey(sha, 2))
	e.Value[100] ^= 1
	ok(d.Commit(kv.Txn{Then: []kv.Op{kv.Put(blobKey(sha, 2), e.Value)}}))(t)
	if _, err := ReadBlob(d.store, sha); err == nil {
		t.Error("a broken chunk is read")
	}
	if _, err := ReadBlob(d.store, strings.Repeat("0", 64)); err == nil {
		t.Error("a content is read that is not there")
	}
}

// TestManyWritesShareATransaction joins uploads, each of them a revision, as many as fit.
func TestManyWritesShareATransaction(t *testing.T) {
	d := fuel(t, "nodes")
	var es []QueuedWrite
	for i := range 100 {
		es = append(es, QueuedWrite{Write: Put{Target: target(fmt.Sprintf("9/nodes=%d/astute", i)), Kind: Values,
			Value: noise(int64(i), 20<<10), Register: true}, Author: "a"})
	}
	es[3].Write = DeleteEnvironment{99}
	first := d.state.Revision()
	plans := 0
	for len(es) > 0 {
		p := ok(d.state.Plan(es, d.store))(t)
		equal(t, "transactions", len(p.Txns), 1)
		d.state = p.Next(ok(d.runPlan(p.Txns, 1))(t))
		es = es[len(p.Results):]
		plans++
	}
	equal(t, "revisions", d.state.Revision()-first, 99)
	equal(t, "plans", plans, 4) // five keys each: 25 in one
}

// TestWhatIsDeletedBeginsEmpty deletes what has records, gives its id or name to another, and sweeps.
func TestWhatIsDeletedBeginsEmpty(t *testing.T) {
	for what, c := range map[string]struct{ del, anew []Write }{
		"environment": {[]Write{DeleteEnvironment{9}},
			[]Write{CreateEnvironment{ID: id(9), Components: []Ref{{ID: 7}}, Levels: []string{"a", "nodes"}}}},
		"level": {[]Write{EditEnvironment{ID: 9, Levels: &[]string{"a"}}},
			[]Write{EditEnvironment{ID: 9, Levels: &[]string{"a", "nodes"}}}},
		"definition": {[]Write{DeleteDefinition{1}}, []Write{CreateDefinition{ID: id(1), Name: "astute", Component: id(7)}}},
		"member": {[]Write{EditComponent{ID: 7, Definitions: &[]int64{2}}},
			[]Write{CreateDefinition{ID: id(1), Name: "astute", Component: id(7)}}},
		"component": {[]Write{DeleteComponent{7}}, []Write{
			CreateComponent{ID: id(7), Name: "component1", Definitions: []Definition{{Name: "astute"}, {Name: "globals"}}},
			EditEnvironment{ID: 9, Components: &[]Ref{{ID: 7}}},
		}},
	} {
		d := fuel(t, "a", "nodes")
		d.put("9/a=1/nodes=1/astute", `{"a":1}`)
		d.put("9/a=1/nodes=1/astute", `{"a":2}`)
		d.must(PutNode{9, Node{ID: "1"}})
		for _, w := range append(c.del, c.anew...) {
			d.must(w)
			equal(t, what+" loaded", show(ok(Load(d.store))(t)), show(d.state))
		}
		equal(t, what, d.ask(Query{Target: target("9/a=1/nodes=1/astute"), Effective: true}), `{}`)
		if swept := d.sweepAll(t, d.state, Keep{}, nil); swept < 5 {
			t.Errorf("%s: %d keys swept: two versions, now, and two contents go", what, swept)
		}
		d.reload()
		equal(t, what+" swept once", d.sweepAll(t, d.state, Keep{}, nil), 0)
		page := ok(d.List("facts/values/", kv.ListOptions{}))(t)
		equal(t, what+" versions", len(page.Entries), 0)
	}
}

// TestWhatStays keeps records whatever the order of the levels, and when a component comes back.
func TestWhatStays(t *testing.T) {
	d := fuel(t, "a", "b", "c")
	d.put("9/a=1/b=2/astute", `{"at":"b"}`)
	d.must(EditEnvironment{ID: 9, Levels: &[]string{"b", "a"}})
	equal(t, "another order", d.ask(Query{Target: target("9/b=2/a=1/astute"), Effective: true, Lookup: true}),
		`{"at":["b","/b/2/"]}`)
	d.must(RenameLevel{9, Ref{Name: "b"}, "role"})
	equal(t, "another name", d.ask(Query{Target: target("9/role=2/astute")}), `{"at":"b"}`)
	d.must(EditEnvironment{ID: 9, Components: &[]Ref{}})
	equal(t, "no component", d.ask(Query{Target: target("9/role=2/astute")}),
		`2 resource_definition not found by astute in environment 9`)
	d.must(EditEnvironment{ID: 9, Components: &[]Ref{{Name: "component1"}}})
	equal(t, "and back", d.ask(Query{Target: target("9/role=2/1")}), `{"at":"b"}`)
}

// TestASweepLeavesWhatIsBroughtMeanwhile writes a content that nothing refers to any more while it is swept.
func TestASweepLeavesWhatIsBroughtMeanwhile(t *testing.T) {
	d := fuel(t, "nodes")
	for i := range 300 {
		d.put("9/astute", fmt.Sprintf(`{"n":%d}`, i))
	}
	steps, n := 0, 0
	d.sweepAll(t, d.state, Keep{Versions: 2}, func() {
		steps++
		d.state = ok(d.follow(d.state))(t)
		d.put("9/globals", fmt.Sprintf(`{"n":%d}`, n%300)) // contents that go, or are gone
		n += 7
	})
	d.state = ok(d.follow(d.state))(t)
	for _, v := range ok(d.state.Versions(VersionsQuery{Target: target("9/globals"), Kind: Values}, d.store))(t) {
		if got := d.ask(Query{Target: target("9/globals"), Version: v.Number}); !strings.HasPrefix(got, `{"n":`) {
			t.Errorf("%d: %s", v.Number, got)
		}
	}
	if steps < 5 || d.largest > kv.MaxOps {
		t.Errorf("%d steps of %d operations at most", steps, d.largest)
	}
	equal(t, "an old version", d.ask(Query{Target: target("9/astute"), Version: 298}),
		`2 version 298 of the values of "astute": is no longer kept`)
	equal(t, "the one before the newest", d.ask(Query{Target: target("9/astute"), Version: 299}), `{"n":298}`)
	vs := ok(d.state.Versions(VersionsQuery{Target: target("9/astute"), Kind: Values}, d.store))(t)
	equal(t, "versions", len(vs), 2)
}

// TestFollowingWhatOneWroteOneself brings no state back to what it was before.
func TestFollowingWhatOneWroteOneself(t *testing.T) {
	d := fuel(t)
	seen := d.state.LastRevision()
	for i := range 3 {
		d.put("9/astute", fmt.Sprintf(`{"n":%d}`, i))
	}
	d.must(DeleteEnvironment{9})
	d.must(CreateEnvironment{ID: id(9), Components: []Ref{{ID: 7}}})
	d.put("9/astute", `{"n":3}`)
	for _, b := range ok(d.Since(Below, seen))(t) {
		d.state = ok(d.state.Follow(b))(t)
		equal(t, "what is known", d.ask(Query{Target: target("9/astute")}), `{"n":3}`)
		equal(t, "seen", d.state.LastRevision(), b.Revision)
	}
	equal(t, "loaded", show(ok(Load(d.store))(t)), show(d.state))
}

// TestOneIDTwiceInATransaction deletes an environment and makes another of its id, in one transaction.
func TestOneIDTwiceInATransaction(t *testing.T) {
	d := fuel(t)
	d.put("9/astute", `{"n":1}`)
	before := d.state
	d.must(Bulk{[]Write{DeleteEnvironment{9}, CreateEnvironment{ID: id(9), Components: []Ref{{ID: 7}}}}})
	equal(t, "followed", show(ok(d.follow(before))(t)), show(d.state))
	equal(t, "empty", d.ask(Query{Target: target("9/astute")}), `{}`)
}

func TestTheKeysOfALookupAreBounded(t *testing.T) {
	s := &State{}
	for _, q := range []HieraQuery{{Keys: make([]string, MaxKeys+1)}, {Resources: make([]string, MaxResources+1)},
		{Keys: []string{strings.Repeat("k", MaxKeyBytes), "k"}}} {
		var f *RequestError
		if _, err := s.Hiera(q, nil); !errors.As(err, &f) || f.Kind != TooLarge {
			t.Errorf("%d keys of %d resources: %v", len(q.Keys), len(q.Resources), err)
		}
	}
}

func TestHiera(t *testing.T) {
	d := fuel(t, "nodes")
	d.put("9/nodes=1/astute", `{"a":{"x":1},"s":"p"}`)
	d.override("9/globals", `{"a":{"y":1.0},"b":null}`)
	d.must(DeclareSecrets{ID: 1, Keys: []string{"s"}})
	ask := func(q HieraQuery) (Answer, error) {
		t.Helper()
		q.Environment, q.Levels = 9, target("9/nodes=1/astute").Levels
		h, err := d.state.Hiera(q, nil)
		if err != nil {
			return Answer{}, err
		}
		equal(t, "ETag", h.ETag(), h.Unmodified().ETag)
		return h.Answer(d.store)
	}
	both := []string{"astute", "globals"}
	one := ok(ask(HieraQuery{Resources: both, Keys: []string{"a", "b", "c", "a.x"},
		Merge: configdb.MergeOptions{Strategy: configdb.MergeFirst}}))(t)
	equal(t, "first", string(one.Body), `{"a":{"x":1},"a.x":1,"b":null}`)
	all := ok(ask(HieraQuery{Resources: both, Merge: configdb.MergeOptions{Strategy: configdb.MergeDeep}}))(t)
	equal(t, "all of the data", string(all.Body), `{"a":{"x":1,"y":1.0},"b":null,"s":{"$masked":true}}`)
	equal(t, "secrets are declared", all.Secret, true)
	if _, err := ask(HieraQuery{Resources: []string{"x"}}); err == nil ||
		!strings.Contains(err.Error(), "not found by x") {
		t.Error(err)
	}
}
