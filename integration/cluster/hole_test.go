package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	"edgespan/config/kv"
	"edgespan/platform/store/etcd"
)

// The link between a store's client and any one member is cut, so that bytes stop and connections stay. The client
// reads, writes and watches again within seconds: another member serves it.
func TestAMemberBehindABlackHole(t *testing.T) {
	c := begin(t)
	var endpoints []string
	var wires []*wire
	for _, m := range c.members {
		w := newWire("the store to %s", m.name)
		wires = append(wires, w)
		endpoints = append(endpoints, "http://"+lead(t, w, func() string { return m.client }))
	}
	for i := range wires {
		if i > 0 && !wholeDrill {
			break
		}
		longest := c.cutStore(endpoints, wires[i])
		t.Logf("without %s: the longest call took %s", c.members[i].name, longest.Round(10*time.Millisecond))
		if longest > 3*time.Second {
			t.Errorf("without %s a call took %s", c.members[i].name, longest)
		}
	}
}

// cutStore uses a store of its own while one of its wires is cut, and returns the duration of the longest call.
func (c *cluster) cutStore(endpoints []string, cut *wire) (longest time.Duration) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), timeout)
	defer cancel()
	s, err := etcd.Open(ctx, etcd.Options{Endpoints: endpoints, Fleet: "fleet"})
	if err != nil {
		c.Fatal(err)
	}
	defer s.Close()
	_, begun, err := s.Get(ctx, "any")
	if err != nil {
		c.Fatal(err)
	}
	reported := make(chan kv.Revision, 1000)
	go func() {
		_ = s.Watch(ctx, "", begun, func(b kv.Batch) error { // ends with the test
			reported <- b.Revision
			return nil
		})
	}()
	round := func() {
		for _, call := range []func() error{
			func() error { _, _, err := s.Get(ctx, "any"); return err },
			func() error { // never an error, as it only reads
				_, err := s.Commit(ctx, kv.Txn{Then: []kv.Op{kv.Get("any"), kv.Get("other")}})
				return err
			},
			func() error {
				out, err := kv.TxnResult{}, error(nil)
				for { // a write of unknown outcome is repeated, as its writers do
					if out, err = s.Commit(ctx, kv.Txn{Then: []kv.Op{kv.Put("any", []byte("v"))}}); err == nil || ctx.Err() != nil {
						break
					}
				}
				for err == nil {
					select {
					case at := <-reported:
						if at >= out.Revision {
							return nil
						}
					case <-ctx.Done():
						err = ctx.Err()
					}
				}
				return err
			},
		} {
			asked := time.Now()
			if err := call(); err != nil {
				c.Fatal(err)
			}
			longest = max(longest, time.Since(asked))
		}
	}
	round()
	cut.set(hole)
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		round()
	}
	cut.set(whole)
	round()
	return longest
}

// The members use the wires between them: a member whose wires to both others are cut takes no part.
func TestAMeshIsCutAtItsWires(t *testing.T) {
	f := &fleet{}
	f.cluster = f.mesh(t)
	lonely := f.follower()
	var cut []*wire
	for i, m := range f.members {
		for j, other := range f.members {
			if i != j && (m == lonely || other == lonely) {
				cut = append(cut, f.peers[i][j])
			}
		}
	}
	s := f.open("fleet", lonely)
	for _, w := range cut {
		w.set(hole)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := s.Commit(ctx, kv.Txn{Then: []kv.Op{kv.Put("any", nil)}}); err == nil ||
		!strings.Contains(err.Error(), "the cluster timed out") {
		t.Errorf("a member that is cut off wrote: %v", err)
	}
	for _, w := range cut {
		w.set(whole)
	}
	f.until("it writes again", func(ctx context.Context) bool {
		_, err := s.Commit(ctx, kv.Txn{Then: []kv.Op{kv.Put("any", nil)}})
		return err == nil
	})
}
