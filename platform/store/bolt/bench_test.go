package bolt

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"edgespan/config/kv"
)

// BenchmarkPut measures the latency of one acknowledged write of 1 KiB, with one writer and with many, against a bare
// write and sync of the same size.
func BenchmarkPut(b *testing.B) {
	value := bytes.Repeat([]byte("v"), 1024)
	var n atomic.Int64
	one := func(s *Store) error {
		k := kv.Key(fmt.Sprint("node/", n.Add(1)%10_000))
		_, err := s.Commit(context.Background(), kv.Txn{Then: []kv.Op{kv.Put(k, value)}})
		return err
	}
	b.Run("floor", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "floor"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		for b.Loop() {
			if _, err := f.WriteAt(value, n.Add(1)%10_000*4096); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
	open := func(b *testing.B) *Store {
		s, err := Open(filepath.Join(b.TempDir(), "store"), Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		return s
	}
	b.Run("one-writer", func(b *testing.B) {
		s := open(b)
		for b.Loop() {
			if err := one(s); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("64-writers", func(b *testing.B) {
		s := open(b)
		b.SetParallelism(32) // for each of 2 cores
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := one(s); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

// BenchmarkRead measures reads among 10,000 keys with ten versions each.
func BenchmarkRead(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "store"), Options{UnsafeNoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	for range 10 {
		for i := 0; i < 10_000; i += 100 {
			var ops []kv.Op
			for j := i; j < i+100; j++ {
				ops = append(ops, kv.Put(kv.Key(fmt.Sprintf("node/%05d", j)), make([]byte, 100)))
			}
			if _, err := s.Commit(context.Background(), kv.Txn{Then: ops}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("get", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := s.Get(context.Background(), "node/05000"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("list-10000", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.List(context.Background(), "node/", kv.ListOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
