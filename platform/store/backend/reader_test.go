package backend_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"edgespan/config/kv"
	"edgespan/platform/store/backend"
	"edgespan/platform/store/bolt"
)

func TestReader(t *testing.T) {
	s, err := bolt.Open(filepath.Join(t.TempDir(), "store"), bolt.Options{UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if _, err := s.Commit(t.Context(),
		kv.Txn{Then: []kv.Op{kv.Put("a/1", []byte("one")), kv.Put("a/2", []byte("two"))}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := backend.NewReader(ctx, s)
	got, err := r.Get("a/2", "none", "a/1")
	if err != nil || len(got) != 3 || string(got[0].Value) != "two" || got[1].Exists() || got[1].Key != "none" ||
		string(got[2].Value) != "one" {
		t.Errorf("%+v, %v", got, err)
	}
	page, err := r.List("a/", kv.ListOptions{})
	if err != nil || len(page.Entries) != 2 {
		t.Errorf("%+v, %v", page, err)
	}
	cancel()
	if _, err := r.Get("a/1"); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context's end: %v", err)
	}
}
