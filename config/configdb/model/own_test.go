package model

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"edgespan/config/kv"
)

// random is a document of about so many bytes that no two writes share.
func random(rng *rand.Rand, size int) string {
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "%016x", rng.Uint64())
	}
	return `{"a":"` + b.String()[:size] + `"}`
}

// sweepKeeping sweeps with so many of the newest revisions left, and answers with the Sweeper.
func (d *desk) sweepKeeping(keep Keep, newest uint64) *Sweeper {
	d.Helper()
	sweep := d.state.Sweep(keep)
	sweep.keepNewest(newest)
	for {
		txn := ok(sweep.Next(d.state, d.store))(d)
		if txn == nil {
			return sweep
		}
		if len(txn.Then) > 0 {
			ok(d.store.Commit(*txn))(d)
			d.state = ok(d.follow(d.state))(d)
		}
	}
}

func (d *desk) kept(at string, k Kind) (out []string) {
	for _, v := range ok(d.state.Versions(VersionsQuery{Target: target(at), Kind: k}, d.store))(d) {
		out = append(out, fmt.Sprint(v.Number, v.Author))
	}
	return out
}

// keysBelow counts keys, but for the further chunks of contents.
func (d *desk) keysBelow(p kv.Prefix) (n int) {
	for _, e := range ok(d.store.List(p, kv.ListOptions{Keys: true}))(d).Entries {
		if p != folderBlobs || strings.HasSuffix(string(e.Key), "/00000000") {
			n++
		}
	}
	return n
}

// Of what a node uploads of itself some versions stay, with what they are made of and who wrote them; of what people
// write all.
func TestWhatANodeUploadsIsKeptForATime(t *testing.T) {
	t.Parallel()
	d := fuel(t, "nodes")
	d.put("9/nodes=1/astute", `{"by":"alice"}`)
	for i := range 10 {
		d.override("9/nodes=1/astute", fmt.Sprintf(`{"n":%d}`, i))
		d.put("9/nodes=2/astute", fmt.Sprintf(`{"n":%d}`, i))
	}
	upload := func(n int) {
		t.Helper()
		if _, f := d.own(Put{Target: target("9/nodes=1/astute"), Kind: Values, Value: doc(t, fmt.Sprintf(`{"own":%d}`, n))},
			0); f != nil {
			t.Fatal(f)
		}
	}
	for n := range 8 {
		upload(n)
	}
	blobs, before := d.keysBelow(folderBlobs), d.state.Revision()
	d.sweepKeeping(Keep{}, 4)
	equal(t, "versions, all kept", len(d.kept("9/nodes=1/astute", Values)), 9)
	equal(t, "contents, all kept", d.keysBelow(folderBlobs), blobs)

	sweep := d.sweepKeeping(Keep{Own: 3}, 4)
	equal(t, "versions", fmt.Sprint(d.kept("9/nodes=1/astute", Values)), "[9node-1 8node-1 7node-1]")
	equal(t, "overrides", len(d.kept("9/nodes=1/astute", Overrides)), 10)
	equal(t, "values that people wrote", len(d.kept("9/nodes=2/astute", Values)), 10)
	equal(t, "contents that are gone", blobs-d.keysBelow(folderBlobs), 6)
	equal(t, "a version", d.ask(Query{Target: target("9/nodes=1/astute"), Version: 7}), `{"own":5}`)
	equal(t, "one that is gone", d.ask(Query{Target: target("9/nodes=1/astute"), Version: 6}),
		`2 version 6 of the values of "astute": is no longer kept`)
	// Of the eight uploads 1 to 4 are older than the newest revisions, and 5 is not.
	equal(t, "records of revisions", d.keysBelow(folderRevisions), int(before)-4)

	upload(8)
	upload(9)
	d.sweepKeeping(Keep{Own: 3, Seen: sweep.Revision()}, 4)
	// Upload 5, whose version went before its record could, and 6, which goes with its version; 7 is among the newest.
	equal(t, "records later", d.keysBelow(folderRevisions), int(before)+2-6)
	for _, r := range ok(d.state.Records(RecordsQuery{}, d.store))(t) {
		if r.Own != (r.Author == "node-1") {
			t.Errorf("revision %d by %s is a node's: %v", r.Revision, r.Author, r.Own)
		}
	}
	equal(t, "the newest", d.ask(Query{Target: target("9/nodes=1/astute")}), `{"own":9}`)
}

// Of what a node uploads of itself older versions stay up to some bytes; what is not there, or was written again, is
// gone from the store.
func TestWhatANodeUploadsIsKeptUpToSomeBytes(t *testing.T) {
	t.Parallel()
	d, rng := fuel(t, "nodes"), rand.New(rand.NewPCG(4, 5))
	for range 12 {
		if _, f := d.own(Put{Target: target("9/nodes=1/astute"), Kind: Values, Value: doc(t, random(rng, 1<<20))},
			0); f != nil {
			t.Fatal(f)
		}
	}
	d.sweepKeeping(Keep{Own: 50}, 1000)
	equal(t, "of 1 MiB each", len(d.kept("9/nodes=1/astute", Values)), 4)
	equal(t, "contents", d.keysBelow(folderBlobs), 4)
	if _, f := d.own(Put{Target: target("9/nodes=1/globals"), Kind: Values, Value: doc(t, random(rng, 3<<20))},
		0); f != nil {
		t.Fatal(f)
	}
	equal(t, "the newest of all", d.state.UploadedBytes(), int64(4<<20+2*len(`{"a":""}`)))
	equal(t, "that is loaded", ok(Load(d.store))(t).UploadedBytes(), d.state.UploadedBytes())
	d.must(Remove{Target: target("9/nodes=1/globals"), Kind: Values})
	d.put("9/nodes=1/astute", `{}`)
	equal(t, "when people have written", d.state.UploadedBytes(), 0)
}

// A node has so many bytes of itself, and all nodes of an environment together; people are not held to that, nor is who
// makes it less.
func TestQuotasOfNodes(t *testing.T) {
	t.Parallel()
	d, rng := newDesk(t), rand.New(rand.NewPCG(6, 7))
	defs := make([]Definition, 9)
	for i := range defs {
		defs[i].Name = fmt.Sprint("r", i)
	}
	d.must(CreateComponent{ID: id(7), Name: "component1", Definitions: defs})
	d.must(CreateEnvironment{ID: id(9), Components: []Ref{{ID: 7}}, Levels: []string{"nodes"}})
	at := func(n int) Target { return target(fmt.Sprintf("9/nodes=1/r%d", n)) }
	full := random(rng, MaxDocument-100)
	put := func(n int, text string, quota int64) *RequestError {
		_, f := d.own(Put{Target: at(n), Kind: Values, Value: doc(t, text)}, quota)
		return f
	}
	for i := range 8 {
		if f := put(i, full, 0); f != nil {
			t.Fatal(i, f)
		}
	}
	for what, refused := range map[string]bool{`{"a":"` + strings.Repeat("x", 2000) + `"}`: true, `{"a":1}`: false} {
		if f := put(8, what, 0); (f != nil) != refused || f != nil && f.Kind != TooLarge {
			t.Errorf("%d bytes beside what it has: %v", len(what), f)
		}
	}
	_, f := d.own(Bulk{Writes: []Write{
		Put{Target: at(0), Kind: Values, Value: doc(t, `{"a":1}`)}, Put{Target: at(8), Kind: Values, Value: doc(t, full)},
	}}, 0)
	if f != nil {
		t.Errorf("one in the place of another: %v", f)
	}
	if _, f = d.own(EditKeys{Target: at(0), Kind: Values, Edit: edit(t, "set", `[["b","`+strings.Repeat("x", 3000)+`"]]`)},
		0); f == nil || f.Kind != TooLarge {
		t.Errorf("a key beside what it has: %v", f)
	}
	if _, f = d.own(Rollback{Target: at(0), Kind: Values, Version: 1}, 0); f == nil || f.Kind != TooLarge {
		t.Errorf("back to what it had: %v", f)
	}
	d.must(Put{Target: target("9/nodes=1/r0"), Kind: Overrides, Value: doc(t, full)})

	_, f = d.own(Put{Target: target("9/nodes=2/r0"), Kind: Values, Value: doc(t, `{"a":2}`)}, 8<<20)
	if f == nil || f.Kind != TooLarge || !strings.Contains(f.Text, "environment 9") {
		t.Errorf("another node where all have too much: %v", f)
	}
	if f := put(8, `{}`, 8<<20); f != nil {
		t.Errorf("less than it had, where all have too much: %v", f)
	}
	if _, f = d.own(Put{Target: target("9/nodes=2/r0"), Kind: Values, Value: doc(t, `{"a":2}`)}, 64<<20); f != nil {
		t.Errorf("where there is room: %v", f)
	}
}
