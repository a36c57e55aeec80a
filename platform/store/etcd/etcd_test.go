package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"edgespan/config/kv"
	"edgespan/platform/store/backend"
	"edgespan/platform/store/conformance"
	"edgespan/platform/store/etcd/etcdtest"
)

// served is this test program's embedded server. The first test that needs it starts it: with -json, testing replaces
// os.Stderr when the tests begin, and etcd's goroutines read that.
var served = sync.OnceValue(func() *etcdtest.Server {
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		panic(err)
	}
	server, err := etcdtest.Serve(dir, true)
	if err != nil {
		panic(err)
	}
	ends = append(ends, server.Close, func() { _ = os.RemoveAll(dir) })
	return server
})

// ends are called after the last test.
var ends []func()

// endpoint returns the address of the embedded server.
func endpoint() string { return served().Endpoint }

func TestMain(m *testing.M) {
	code := m.Run()
	for _, end := range ends {
		end()
	}
	os.Exit(code)
}

var fleets atomic.Int64

// opened returns a store with a fleet name of its own.
func opened(t testing.TB) *Store { return openedAs(t, fmt.Sprint("fleet-", fleets.Add(1))) }

func openedAs(t testing.TB, fleet string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Endpoints: []string{endpoint()}, Fleet: fleet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	histories := 100
	if testing.Short() {
		histories = 20
	}
	conformance.Run(t, func(t *testing.T) conformance.Fixture {
		return conformance.Fixture{Store: opened(t), Clock: backend.Wall{}, Advance: time.Sleep}
	}, histories)
}

func TestFleetsShareAClusterUnseen(t *testing.T) {
	one, two := opened(t), opened(t)
	if one.ID() == two.ID() {
		t.Error("two fleets have one id")
	}
	for _, s := range []*Store{one, two} {
		if _, err := s.Commit(t.Context(), kv.Txn{Then: []kv.Op{kv.Put("a/b", []byte(s.ID()))}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := one.Commit(t.Context(), kv.Txn{Then: []kv.Op{kv.DeletePrefix("")}}); err != nil {
		t.Fatal(err)
	}
	page, err := two.List(t.Context(), "", kv.ListOptions{})
	if err != nil || len(page.Entries) != 1 || string(page.Entries[0].Value) != two.ID() {
		t.Errorf("another fleet's delete was felt: %v %v", page, err)
	}
}

func TestReplicasOfAFleetAreOneStore(t *testing.T) {
	one, two := openedAs(t, "replicas"), openedAs(t, "replicas")
	if one.ID() != two.ID() {
		t.Errorf("ids %s and %s", one.ID(), two.ID())
	}
	if _, err := one.Commit(t.Context(), kv.Txn{Then: []kv.Op{kv.Put("a", []byte("1"))}}); err != nil {
		t.Fatal(err)
	}
	if e, _, err := two.Get(t.Context(), "a"); err != nil || string(e.Value) != "1" {
		t.Errorf("the other reads %q: %v", e.Value, err)
	}
}

// The deadline of a call is also the member's: the error is the same, whichever side reports it first.
func TestAMemberThatSaysTimedOutFirst(t *testing.T) {
	err := openedAs(t, "timed").meaning(t.Context(), rpctypes.ErrTimeout)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "timed out") {
		t.Error(err)
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	for _, fleet := range []string{"", "a//b", strings.Repeat("f", MaxFleet+1)} {
		if _, err := Open(t.Context(), Options{Endpoints: []string{endpoint()}, Fleet: fleet}); !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("fleet %.20q: %v", fleet, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, Options{Endpoints: []string{"http://127.0.0.1:1"}, Fleet: "f"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("a cluster that is not there: %v", err)
	}
	s := openedAs(t, "spoilt")
	if _, err := s.client.Put(t.Context(), s.root+"id", "no id"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Endpoints: []string{endpoint()}, Fleet: "spoilt"}); err == nil ||
		!strings.Contains(err.Error(), `invalid value "no id"`) {
		t.Errorf("an id that is none: %v", err)
	}
}

// TestALongListIsReadInParts lists more entries than one answer of etcd can contain.
func TestALongListIsReadInParts(t *testing.T) {
	s := opened(t)
	const n = 2*pageEntries + 1
	for i := 0; i < n; i += 100 {
		var ops []kv.Op
		for j := i; j < min(i+100, n); j++ {
			ops = append(ops, kv.Put(kv.Key(fmt.Sprintf("n/%05d", j)), nil))
		}
		if _, err := s.Commit(t.Context(), kv.Txn{Then: ops}); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int{0, 1, pageEntries, pageEntries + 1, n - 1, n, n + 1} {
		page, err := s.List(t.Context(), "n/", kv.ListOptions{Limit: limit})
		want := n
		if limit > 0 {
			want = min(limit, n)
		}
		if err != nil || len(page.Entries) != want || page.More != (want < n) {
			t.Errorf("limit %d: %d entries, more %v, %v", limit, len(page.Entries), page.More, err)
		}
		for i, e := range page.Entries {
			if e.Key != kv.Key(fmt.Sprintf("n/%05d", i)) {
				t.Fatalf("limit %d: entry %d is %q", limit, i, e.Key)
			}
		}
	}
}
