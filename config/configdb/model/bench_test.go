package model

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"edgespan/config/configdb"
	"edgespan/config/kv"
)

// astute is a document of 69 KB as deployments have it: much of it alike, addresses and passwords not.
func astute(tb tester, seed int64) configdb.JSON {
	r := rand.New(rand.NewSource(seed))
	var b strings.Builder
	b.WriteString(`{"n":1.0`)
	for i := 0; b.Len() < 69<<10; i++ {
		fmt.Fprintf(&b, `,"network_%d":{"endpoints":{"br-mgmt":{"IP":["192.168.%d.%d/24"],"vendor_specific":{"phy_interfaces":["eth%d"],"vlans":%d}}},"password":"%016x","user":"nova","metadata":{"label":"Storage","weight":%d,"restrictions":[{"condition":"settings:storage.images_ceph.value == true"}]}}`,
			i, r.Intn(255), r.Intn(255), r.Intn(4), r.Intn(4000), r.Uint64(), r.Intn(100))
	}
	return doc(tb, b.String()+"}")
}

// TestStoredSize holds the bar of the eighth issue for its shape, at a twentieth of it: what is stored is at most
// 1.5 times the compressed size of the documents plus keys.
func TestStoredSize(t *testing.T) {
	d := fuel(t, "nodes")
	packed := 0
	for i := range 700 {
		v := astute(t, int64(i))
		packed += len(packer.EncodeAll(v, nil))
		d.must(Put{Target: target(fmt.Sprintf("9/nodes=%d/%d", i/2, 1+i%2)), Kind: Values, Value: v, Register: true})
	}
	page := ok(d.List("facts/", kv.ListOptions{}))(t)
	values, keys := 0, 0
	for _, e := range page.Entries {
		values, keys = values+len(e.Value), keys+len(e.Key)
	}
	t.Logf("700 documents: %d bytes compressed, %d in values, %d in keys", packed, values, keys)
	if float64(values) > 1.5*float64(packed) {
		t.Errorf("%d bytes stored of %d", values, packed)
	}
}

// TestAnOldVersionIsAsNear counts what is read of a version older by 10,000 uploads, and of what was effective then.
func TestAnOldVersionIsAsNear(t *testing.T) {
	d := fuel(t, "nodes")
	for i := range 10_000 {
		d.put("9/astute", fmt.Sprintf(`{"n":%d}`, i))
		if i == 10 {
			d.put("9/nodes=1/astute", `{"m":1}`)
		}
	}
	for name, c := range map[string]struct {
		q     Query
		reads int
		want  string
	}{
		"the newest":   {Query{Target: target("9/astute")}, 1, `{"n":9999}`},
		"the second":   {Query{Target: target("9/astute"), Version: 2}, 2, `{"n":1}`},
		"one between":  {Query{Target: target("9/astute"), Version: 5000}, 2, `{"n":4999}`},
		"of a moment":  {Query{Target: target("9/nodes=1/astute"), Effective: true, Version: 1}, 4, `{"m":1,"n":10}`},
		"of no moment": {Query{Target: target("9/astute"), Effective: true, Revision: 1}, 2, `{}`},
	} {
		d.gets = 0
		equal(t, name, d.ask(c.q), c.want)
		if d.gets > c.reads {
			t.Errorf("%s: %d reads of the store, want %d", name, d.gets, c.reads)
		}
	}
}

// BenchmarkUpload is one upload of 69 KB into an environment of 1,000 nodes with 14 resources, alone and
// 25 at once.
func BenchmarkUpload(b *testing.B) {
	d := thousand(b)
	for _, together := range []int{1, 25} {
		b.Run(fmt.Sprint(together), func(b *testing.B) {
			n := 0
			var es []QueuedWrite
			for i := range together {
				es = append(es, QueuedWrite{Write: Put{Target: target(fmt.Sprintf("9/nodes=%d/%d", i, 1)), Kind: Values,
					Value: astute(b, int64(i)), Register: true}, Author: "a"})
			}
			for b.Loop() {
				n += len(ok(d.state.Plan(es, d.store))(b).Results)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "uploads/s")
		})
	}
}

// BenchmarkChain is what a query costs whose answer is known already: its ETag.
func BenchmarkChain(b *testing.B) {
	d := thousand(b)
	q := Query{Target: target("9/nodes=500/r7"), Kind: Values, Effective: true}
	for b.Loop() {
		ok(d.state.Chain(q, d.store))(b)
	}
}

// thousand is an environment of 1,000 nodes with 14 resources, of small documents.
func thousand(b *testing.B) *desk {
	d := newDesk(b)
	c := CreateComponent{Name: "c"}
	for i := range 14 {
		c.Definitions = append(c.Definitions, Definition{Name: fmt.Sprint("r", i)})
	}
	d.must(c)
	d.must(CreateEnvironment{ID: id(9), Components: []Ref{{ID: 1}}, Levels: []string{"nodes"}})
	for n := range 1000 {
		bulk := Bulk{}
		for i := range 14 {
			bulk.Writes = append(bulk.Writes, Put{Target: target(fmt.Sprintf("9/nodes=%d/%d", n, i+1)),
				Kind: Values, Value: doc(b, fmt.Sprintf(`{"n":%d}`, n)), Register: true})
		}
		d.must(bulk)
	}
	return d
}
