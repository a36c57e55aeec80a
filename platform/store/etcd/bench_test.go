package etcd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"edgespan/config/kv"
	"edgespan/platform/store/etcd/etcdtest"
)

// BenchmarkPut measures the latency of one acknowledged write of 1 KiB in a cluster of one member that syncs, against a
// bare write and sync of the same size.
func BenchmarkPut(b *testing.B) {
	value := bytes.Repeat([]byte("v"), 1024)
	b.Run("floor", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "floor"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		n := int64(0)
		for b.Loop() {
			n++
			if _, err := f.WriteAt(value, n%10_000*4096); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("one-writer", func(b *testing.B) {
		server, err := etcdtest.Serve(b.TempDir(), false)
		if err != nil {
			b.Fatal(err)
		}
		defer server.Close()
		s, err := Open(b.Context(), Options{Endpoints: []string{server.Endpoint}, Fleet: "bench"})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		n := 0
		for b.Loop() {
			n++
			k := kv.Key(fmt.Sprint("node/", n%10_000))
			if _, err := s.Commit(context.Background(), kv.Txn{Then: []kv.Op{kv.Put(k, value)}}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
