package model

import (
	"fmt"
	"testing"

	"edgespan/config/kv"
)

// keysOnly is a store that hands out the values of those only whose values count in a sweep.
type keysOnly struct {
	*store
	t *testing.T
}

func (s keysOnly) List(p kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	if desired := p == "facts/values/" || p == "facts/overrides/"; o.Keys == desired && p != folderRevisions {
		s.t.Errorf("below %s: keys alone: %v", p, o.Keys)
	}
	return s.store.List(p, o)
}

// Where versions are pruned, so are the records of revisions, but for the newest and those that a version names.
func TestRecordsAreSweptToo(t *testing.T) {
	for keep, want := range map[uint64]string{0: "24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1",
		2: "24 23 22 21 20 3"} {
		d := fuel(t, "nodes")
		d.put("9/globals", `{"n":0}`) // revision 3, whose version stays
		for i := range 21 {
			d.put("9/astute", fmt.Sprintf(`{"n":%d}`, i))
		}
		sweep := d.state.Sweep(Keep{Versions: keep})
		sweep.keepNewest(5)
		for {
			txn := ok(sweep.Next(d.state, keysOnly{d.store, t}))(t)
			if txn == nil {
				break
			}
			if len(txn.Then) > 0 {
				ok(d.store.Commit(*txn))(t)
				d.state = ok(d.follow(d.state))(t)
			}
		}
		got := ""
		for _, r := range ok(d.state.Records(RecordsQuery{}, d.store))(t) {
			got += fmt.Sprint(r.Revision, " ")
		}
		equal(t, fmt.Sprint("keep ", keep), got, want+" ")
		equal(t, "of an environment, from before",
			len(ok(d.state.Records(RecordsQuery{Environment: 9, Before: 20, Limit: 1}, d.store))(t)), 1)
		for _, v := range ok(d.state.Versions(VersionsQuery{Target: target("9/astute"), Kind: Values}, d.store))(t) {
			equal(t, "who wrote a version", v.Author, "alice")
		}
		equal(t, "what stood then", d.ask(Query{Target: target("9/globals"), Revision: 15}), `{"n":0}`)
		d.put("9/astute", `{"n":99}`)
	}
}
