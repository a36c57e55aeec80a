package history

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config/kv"
	backendpkg "edgespan/platform/store/backend"
	"edgespan/platform/store/bolt"
	"edgespan/platform/store/etcd"
	"edgespan/platform/store/etcd/etcdtest"
)

// real is a store on a disk.
type real struct{ backendpkg.Store }

func (r real) Get(key kv.Key) (kv.Entry, kv.Revision, error) {
	return r.Store.Get(context.Background(), key)
}

func (r real) List(below kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	return r.Store.List(context.Background(), below, o)
}

func (r real) Commit(txn kv.Txn) (kv.TxnResult, error) {
	return r.Store.Commit(context.Background(), txn)
}

// The histories of TestPropertyHistoriesOfTwoWriters in files, one for each, every tenth of them synced.
func TestPropertyHistoriesInBolt(t *testing.T) {
	parts := 10
	if testing.Short() {
		parts = 1
	}
	var n atomic.Int64
	for part := range parts {
		dir := t.TempDir()
		t.Run(fmt.Sprint(part), rapid.MakeCheck(func(t *rapid.T) {
			s, err := bolt.Open(filepath.Join(dir, fmt.Sprint(n.Add(1))), bolt.Options{UnsafeNoSync: n.Load()%10 != 0})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			twoWriters(t, &store{backend: real{s}})
		}))
	}
}

// The same in an etcd, where each history is a fleet.
func TestPropertyHistoriesInEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred fleets")
	}
	server, err := etcdtest.Serve(t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var n atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		s, err := etcd.Open(context.Background(),
			etcd.Options{Endpoints: []string{server.Endpoint}, Fleet: fmt.Sprint(n.Add(1))})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		twoWriters(t, &store{backend: real{s}})
	})
}
