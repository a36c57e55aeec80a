package serve

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"edgespan/config/fleet/history"
	"edgespan/config/kv"
	"edgespan/platform/store/bolt"
)

const newerForm = `{"format":3,"least":2,"by":"9.0.0"}`

// A store that a newer version has made its own is refused with the reason, at the start and while
// the controller runs; one that only has more in it is not, and stays noted as it is.
func TestAStoreOfANewerFormIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := bolt.Open(filepath.Join(dir, "store.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(text string) {
		if _, err := s.Commit(t.Context(), kv.Txn{Then: []kv.Op{kv.Put(history.FormatKey(), []byte(text))}}); err != nil {
			t.Error(err)
		}
	}
	has := func() string {
		e, _, err := s.Get(t.Context(), history.FormatKey())
		if err != nil {
			t.Fatal(err)
		}
		return string(e.Value)
	}
	if err := keepForm(t.Context(), s, "1.0.0"); err != nil || !strings.Contains(has(), `"format":1,"least":1`) {
		t.Fatalf("%v: %s", err, has())
	}
	const more = `{"format":2,"least":1,"by":"8.0.0"}`
	put(more)
	if err := keepForm(t.Context(), s, "1.0.0"); err != nil || has() != more {
		t.Errorf("%v: %s", err, has())
	}
	ended := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- watchForm(ctx, s, "1.0.0", zap.NewNop()) }()
	put(more)
	put(newerForm)
	if err := <-ended; !errors.As(err, new(*newerStoreError)) {
		t.Errorf("while it runs: %v", err)
	}
}
