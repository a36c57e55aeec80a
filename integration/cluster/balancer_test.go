package cluster

import (
	"context"
	"errors"
	"fmt"

	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/layers"
)

// readsAfterWrites checks what docs/rest.md promises behind a plain balancer, where each request goes to another
// controller: a client with an acknowledged write reads it anywhere, with a revision that is not older; a conditional
// write is refused anywhere after another client's write.
func (f *fleet) readsAfterWrites() {
	f.Helper()
	var one [3]*fleetapi.Client
	for i, r := range f.replicas {
		one[i] = f.client(r.apiAt)
	}
	ctx, cancel := context.WithTimeout(f.Context(), timeout)
	defer cancel()
	var last uint64
	for n := range 12 {
		writer, reader, third := one[n%3], one[(n+1+n/3%2)%3], one[(n+2-n/3%2)%3]
		out, err := writer.Write(ctx, balanced(n), fleetapi.WriteOptions{Message: fmt.Sprint("balanced ", n)})
		if err != nil {
			f.Fatal(err)
		}
		last = out.Revision
		doc, err := reader.Layer(ctx, ops.LayerQuery{Layer: layers.Network})
		if v, _ := config.Lookup(doc.Object, []string{"balanced", "n"}); err != nil || v != int64(n) || doc.Revision < last {
			f.Fatalf("after revision %d with %d another controller reads %v of revision %d, %v", last, n, v, doc.Revision, err)
		}
		conf, err := third.Config(ctx, ops.ConfigQuery{Node: "sim-00001"})
		if v, _ := config.Lookup(conf.Object, []string{"balanced", "n"}); err != nil || v != int64(n) {
			f.Fatalf("after revision %d with %d another controller's effective config has %v, %v", last, n, v, err)
		}
		all, err := reader.History(ctx, fleetapi.HistoryQuery{Limit: 1})
		if err != nil || len(all) != 1 || all[0].Number < last {
			f.Fatalf("after revision %d another controller's history ends with %+v, %v", last, all, err)
		}
		before := doc.Revision - 1
		if _, err = third.Write(ctx, balanced(-1), fleetapi.WriteOptions{IfMatch: &before}); !errors.Is(err,
			rest.ErrConflict) {
			f.Fatalf("a write bound to revision %d after %d: %v", before, doc.Revision, err)
		}
	}
	f.until("all controllers tell how the last revision goes out", func(ctx context.Context) bool {
		for _, c := range one { // they only follow the first
			if r, err := c.Rollout(ctx, last); err != nil || r.Revision != last {
				return false
			}
		}
		return true
	})
}

func balanced(n int) ops.Write {
	return ops.SetNetwork{Modify: true, Overrides: config.Object{"balanced": config.Object{"n": int64(n)}}}
}
