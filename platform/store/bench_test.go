package store

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// The lower bound: one write and one sync of the same size, with nothing around it.
func BenchmarkRawWriteAndSync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	must(b, err)
	defer f.Close()
	data := make([]byte, 200)
	for b.Loop() {
		if _, err := f.Write(data); err != nil {
			b.Fatal(err)
		}
		must(b, f.Sync())
	}
}

func BenchmarkPut(b *testing.B) {
	for _, size := range []int{200, 20_000} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			j := open(b, b.TempDir())
			value := make([]byte, size)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				must(b, j.Put("bench", fmt.Sprint(i%100), value))
			}
		})
	}
}

// 32 writers, as when a burst of apps gets its versions.
func BenchmarkPutParallel(b *testing.B) {
	j := open(b, b.TempDir())
	value := make([]byte, 200)
	var n atomic.Int64
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		key := fmt.Sprint(n.Add(1))
		for pb.Next() {
			if err := j.Put("bench", key, value); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkWriteFile(b *testing.B) {
	path := filepath.Join(b.TempDir(), "f")
	data := make([]byte, 4096)
	for b.Loop() {
		must(b, WriteFile(path, data, 0o644))
	}
}

// A record of a node, in a file that is replaced and in a slot.
func BenchmarkRecord(b *testing.B) {
	record := make([]byte, 12_000)
	b.Run("replaced", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "f")
		for b.Loop() {
			must(b, WriteFile(path, record, 0o600))
		}
	})
	b.Run("slot", func(b *testing.B) {
		s := NewSlots(filepath.Join(b.TempDir(), "s"))
		for range 2 {
			must(b, s.Write("v", record))
		}
		for b.Loop() {
			must(b, s.Write("v", record))
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	j := open(b, dir)
	for i := range 1000 {
		must(b, j.Put("bench", fmt.Sprint(i), make([]byte, 200)))
	}
	must(b, j.Close())
	for b.Loop() {
		j, err := OpenJournal(dir)
		must(b, err)
		must(b, j.Close())
	}
}
