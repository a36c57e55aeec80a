package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"edgespan/config/kv"
)

// emptySees reads repeatedly, since in a cluster the member that answers may lag.
func emptySees(r *rig) {
	for i := range 100 {
		at := r.put("empty", fmt.Sprint(i))
		o, err := r.Commit(r.ctx(), kv.Txn{Compares: []kv.Compare{kv.AtRevision("empty", at)}})
		if err != nil || !o.Succeeded || o.Revision != at || len(o.Results) != 0 {
			r.Fatalf("after revision %d: %+v, %v", at, o, err)
		}
	}
}

func transactions(r *rig) {
	first := r.put("a", "1")
	e := r.get("a")
	r.is("an entry", fmt.Sprintf("%s %d %d", e.Value, e.ModRevision, e.Version), fmt.Sprintf("1 %d 1", first))
	second := r.put("a", "2")
	if second <= first {
		r.Errorf("revision %d after %d", second, first)
	}
	if _, at, err := r.Get(r.ctx(), "nobody"); err != nil || at != second || r.get("nobody").Exists() {
		r.Errorf("an absent key: at %d, %v", at, err)
	}
	for _, c := range []struct {
		what string
		cmp  kv.Compare
		want bool
	}{
		{"at its revision", kv.AtRevision("a", second), true},
		{"at an older one", kv.AtRevision("a", first), false},
		{"at 0 while there", kv.AtRevision("a", 0), false},
		{"at 0 while absent", kv.AtRevision("b", 0), true},
		{"at a revision while absent", kv.AtRevision("b", second), false},
		{"with its value", kv.HasValue("a", []byte("2")), true},
		{"with another", kv.HasValue("a", []byte("1")), false},
		{"with no value while absent", kv.HasValue("b", nil), false},
		{"exists", kv.Exists("a"), true},
		{"exists while absent", kv.Exists("b"), false},
		{"absent", kv.Absent("b"), true},
		{"absent while there", kv.Absent("a"), false},
	} {
		out := r.commit(kv.Txn{
			Compares: []kv.Compare{c.cmp},
			Then:     []kv.Op{kv.Get("a")}, Else: []kv.Op{kv.Get("nobody"), kv.Get("a")},
		})
		r.is(c.what, out.Succeeded, c.want)
		r.is(c.what+": the results of one branch", len(out.Results), map[bool]int{true: 1, false: 2}[c.want])
		r.is(c.what+": what it read", string(out.Results[len(out.Results)-1].Entry.Value), "2")
	}
	r.is("all compares count", r.commit(kv.Txn{Compares: []kv.Compare{kv.Exists("a"), kv.Exists("b")}}).Succeeded, false)
	out := r.commit(kv.Txn{Then: []kv.Op{
		kv.Get("b"), kv.Put("b", []byte("x")), kv.Get("b"), kv.Delete("a"), kv.Delete("c"),
	}})
	r.is("a get before", out.Results[0].Entry.Exists(), false)
	r.is("a get after", fmt.Sprintf("%s %d", out.Results[2].Entry.Value, out.Results[2].Entry.ModRevision),
		fmt.Sprintf("x %d", out.Revision))
	r.is("deleted", []int{out.Results[3].Deleted, out.Results[4].Deleted}, []int{1, 0})
	before := r.now()
	r.is("what changes nothing is no revision", r.then(kv.Delete("a"), kv.DeletePrefix("c/")), before)
	r.then(kv.Put("n/1", nil), kv.Put("n/2/x", nil), kv.Put("n", nil), kv.Put("n1", nil))
	r.is("deleted below", r.commit(kv.Txn{Then: []kv.Op{kv.DeletePrefix("n/")}}).Results[0].Deleted, 2)
	r.is("not beside", words(r.list("", kv.ListOptions{}).Entries), "b=x n= n1=")
	r.put("a", "3")
	r.is("versions begin again", r.get("a").Version, 1)
	r.is("deleted all", r.commit(kv.Txn{Then: []kv.Op{kv.DeletePrefix("")}}).Results[0].Deleted, 4)
	r.is("nothing left", len(r.list("", kv.ListOptions{}).Entries), 0)
}

func txnIsAtomic(r *rig) {
	at := r.put("a", "1")
	_, err := r.Commit(r.ctx(), kv.Txn{Then: []kv.Op{
		kv.Put("a", []byte("2")), kv.Delete("b"), kv.PutLeased("c", nil, 12345),
	}})
	r.fails("a lease that is not there", err, kv.ErrNoLease)
	_, err = r.Commit(r.ctx(), kv.Txn{Then: []kv.Op{kv.Put("a", []byte("2")), kv.Put("b//", nil)}})
	r.fails("a key that is none", err, kv.ErrInvalid)
	_, err = r.Commit(r.ctx(), kv.Txn{Then: []kv.Op{kv.Put("a", []byte("2")), kv.DeletePrefix("")}})
	r.fails("a key that is written twice", err, kv.ErrInvalid)
	r.is("nothing of them is there", words(r.list("", kv.ListOptions{}).Entries), "a=1")
	r.is("nor was a revision", r.now(), at)
	out := r.commit(kv.Txn{
		Compares: []kv.Compare{kv.Absent("a")},
		Then:     []kv.Op{kv.PutLeased("c", nil, 12345)}, Else: []kv.Op{kv.Put("d", nil)},
	})
	r.is("only the branch taken needs its lease", out.Succeeded, false)
}

func limits(r *rig) {
	var gets, puts []kv.Op
	var compares []kv.Compare
	for i := range kv.MaxOps + 1 {
		k := kv.Key(fmt.Sprintf("ops/%03d", i))
		gets, puts = append(gets, kv.Get(k)), append(puts, kv.Put(k, nil))
		compares = append(compares, kv.Absent(k))
	}
	const n = kv.MaxOps
	r.is("128 of each", r.commit(kv.Txn{Compares: compares[:n], Then: puts[:n], Else: gets[:n]}).Succeeded, true)
	r.is("all written", len(r.list("ops/", kv.ListOptions{}).Entries), n)
	for what, txn := range map[string]kv.Txn{
		"129 compares": {Compares: compares}, "129 in Then": {Then: puts}, "129 in Else": {Else: gets},
	} {
		_, err := r.Commit(r.ctx(), txn)
		r.fails(what, err, kv.ErrTooLarge)
	}
	room := kv.MaxSize - kv.Txn{Then: []kv.Op{kv.Put("big", nil)}}.Size()
	big := bytes.Repeat([]byte{0xff}, room)
	r.put("big", string(big))
	r.is("the largest value comes back", bytes.Equal(r.get("big").Value, big), true)
	_, err := r.Commit(r.ctx(), kv.Txn{Then: []kv.Op{kv.Put("big", append(big, 0))}})
	r.fails("a byte more", err, kv.ErrTooLarge)
	// Many small operations with the longest keys, up to the same size.
	txn := kv.Txn{}
	for i := 0; ; i++ {
		k := kv.Key(fmt.Sprintf("%03d/%s", i, strings.Repeat("k", kv.MaxKey-4)))
		op := kv.Put(k, make([]byte, 9000))
		if (kv.Txn{Then: append(txn.Then, op)}).Size() > kv.MaxSize || len(txn.Then) == n {
			break
		}
		txn.Then = append(txn.Then, op)
	}
	r.commit(txn)
	_, _, err = r.Get(r.ctx(), kv.Key(strings.Repeat("k", kv.MaxKey+1)))
	r.fails("a longer key", err, kv.ErrInvalid)
	_, err = r.List(r.ctx(), "no-slash", kv.ListOptions{})
	r.fails("a prefix without a slash", err, kv.ErrInvalid)
	r.fails("to watch it", r.Watch(r.ctx(), "no-slash", 0, nil), kv.ErrInvalid)
	_, err = r.Grant(r.ctx(), kv.MinTTL/2)
	r.fails("a lease of a second", err, kv.ErrInvalid)
}

func unicodeKeys(r *rig) {
	keys := []kv.Key{"knoten/Ulm", "knoten/Zürich", "knoten/Ωmega", "knoten/日本", "knoten/🛰 1", "knoten/\u00a0"}
	for i, k := range keys {
		r.put(k, fmt.Sprint(i))
	}
	var got []kv.Key
	for _, e := range r.list("knoten/", kv.ListOptions{}).Entries {
		got = append(got, e.Key)
	}
	r.is("in the order of their bytes", fmt.Sprintf("%q", got),
		fmt.Sprintf("%q", []kv.Key{"knoten/Ulm", "knoten/Zürich", "knoten/\u00a0", "knoten/Ωmega", "knoten/日本",
			"knoten/🛰 1"}))
	for i, k := range keys {
		r.is(string(k), string(r.get(k).Value), fmt.Sprint(i))
	}
	r.is("below one", r.then(kv.DeletePrefix("knoten/日/")), r.now())
}

func lists(r *rig) {
	for i := range 7 {
		r.put(kv.Key(fmt.Sprint("n/", i)), "a")
	}
	r.put("n", "x")
	r.put("n0", "x")
	page := r.list("n/", kv.ListOptions{Limit: 3})
	r.is("a page", words(page.Entries), "n/0=a n/1=a n/2=a")
	r.is("more is there", page.More, true)
	r.then(kv.Put("n/3", []byte("b")), kv.Delete("n/5"), kv.Put("n/9", nil), kv.Delete("n/0"))
	r.put("n/3", "c")
	at, got := page.Revision, page.Entries
	for page.More {
		page = r.list("n/", kv.ListOptions{Limit: 3, After: got[len(got)-1].Key, At: at})
		r.is("as of the same revision", page.Revision, at)
		got = append(got, page.Entries...)
	}
	r.is("the pages are of one revision", words(got), "n/0=a n/1=a n/2=a n/3=a n/4=a n/5=a n/6=a")
	r.is("now it is another", words(r.list("n/", kv.ListOptions{}).Entries), "n/1=a n/2=a n/3=c n/4=a n/6=a n/9=")
	r.is("the keys alone", words(r.list("n/", kv.ListOptions{Keys: true}).Entries), "n/1= n/2= n/3= n/4= n/6= n/9=")
	r.is("with their revisions", r.list("n/", kv.ListOptions{Keys: true, Limit: 1}).Entries[0].Exists(), true)
	r.is("a page that is just full", r.list("n/", kv.ListOptions{Limit: 6}).More, false)
	r.is("after the last", len(r.list("n/", kv.ListOptions{After: "n/9"}).Entries), 0)
	r.is("nothing below", len(r.list("m/", kv.ListOptions{}).Entries), 0)
	_, err := r.List(r.ctx(), "n/", kv.ListOptions{At: r.now() + 1_000_000})
	r.fails("the future", err, kv.ErrFuture)
	_, err = r.List(r.ctx(), "n/", kv.ListOptions{Limit: -1})
	r.fails("a negative limit", err, kv.ErrInvalid)
	_, err = r.List(r.ctx(), "n/", kv.ListOptions{After: "m"})
	r.fails("after what is not below", err, kv.ErrInvalid)
}

func compaction(r *rig) {
	var revs []kv.Revision
	for i := range 5 {
		revs = append(revs, r.put("k", fmt.Sprint(i)), r.put(kv.Key(fmt.Sprint("n/", i)), "x"))
	}
	gone := r.then(kv.DeletePrefix("n/"))
	last := r.put("k", "last")
	r.fails("the future", r.Compact(r.ctx(), last+1_000_000), kv.ErrFuture)
	for range 2 { // the second time is no error
		if err := r.Compact(r.ctx(), gone); err != nil {
			r.Fatal(err)
		}
	}
	if err := r.Compact(r.ctx(), revs[2]); err != nil {
		r.Errorf("an older one is no error: %v", err)
	}
	_, err := r.List(r.ctx(), "", kv.ListOptions{At: revs[3]})
	r.fails("a read before", err, kv.ErrCompacted)
	r.is("a read at it", words(r.list("", kv.ListOptions{At: gone}).Entries), "k=4")
	r.is("a read now", words(r.list("", kv.ListOptions{}).Entries), "k=last")
	r.fails("a watch from before", r.Watch(r.ctx(), "", revs[3], nil), kv.ErrCompacted)
	w := r.watch("", gone-1)
	r.is("a watch that needs it", report(r.next(w)), "delete n/0, delete n/1, delete n/2, delete n/3, delete n/4")
	r.is("and what follows", report(r.next(w)), "put k=last")
	if err := r.Compact(r.ctx(), last); err != nil {
		r.Fatal(err)
	}
	r.put("k", "after")
	r.is("a watch goes on over a compaction", report(r.next(w)), "put k=after")
	r.is("the version counts on", r.get("k").Version, 7)
}

func closed(r *rig) {
	r.put("a", "1")
	w := r.watch("", r.now())
	if r.ID() == "" {
		r.Error("it has no id")
	}
	r.put("a", "2")
	r.next(w) // it is running
	if err := r.Close(); err != nil {
		r.Fatal(err)
	}
	r.fails("a watch", r.end(w), kv.ErrClosed)
	_, err := r.Commit(r.ctx(), kv.Txn{Then: []kv.Op{kv.Put("a", nil)}})
	r.fails("commit", err, kv.ErrClosed)
	_, _, err = r.Get(r.ctx(), "a")
	r.fails("get", err, kv.ErrClosed)
	_, err = r.List(r.ctx(), "", kv.ListOptions{})
	r.fails("list", err, kv.ErrClosed)
	_, err = r.Grant(r.ctx(), kv.MinTTL)
	r.fails("grant", err, kv.ErrClosed)
	_, err = r.KeepAlive(r.ctx(), 1)
	r.fails("keep alive", err, kv.ErrClosed)
	r.fails("watch", r.Watch(r.ctx(), "", 0, nil), kv.ErrClosed)
	r.fails("compact", r.Compact(r.ctx(), 1), kv.ErrClosed)
	if errors.Is(r.Close(), kv.ErrClosed) {
		r.Error("closing twice is an error")
	}
}

// weighs checks that written data counts as size, and compacted data does not.
func weighs(r *rig) {
	size := func() int64 {
		n, err := r.Size(r.Context())
		if err != nil {
			r.Fatal(err)
		}
		return n
	}
	before := size()
	var at kv.Revision
	for n := range 8 {
		o, err := r.Commit(r.Context(), kv.Txn{Then: []kv.Op{kv.Put("heavy", bytes.Repeat([]byte{byte(n)}, 1<<20))}})
		if err != nil {
			r.Fatal(err)
		}
		at = o.Revision
	}
	until := func(what string, match func(int64) bool) int64 {
		for n := 0; !match(size()); n++ { // etcd counts and compacts in the background
			if n > 300 {
				r.Fatalf("%s: it began with %d bytes and has %d", what, before, size())
			}
			r.Advance(100 * time.Millisecond)
			if _, err := r.Commit(r.Context(), kv.Txn{Then: []kv.Op{kv.Put("light", nil)}}); err != nil {
				r.Fatal(err) // bbolt frees pages in the next writes
			}
		}
		return size()
	}
	full := until("8 MiB more", func(now int64) bool { return now >= before+7<<20 })
	if err := r.Compact(r.Context(), at); err != nil {
		r.Fatal(err)
	}
	until("compacted", func(now int64) bool { return now <= full-4<<20 })
}
