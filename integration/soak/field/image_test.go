package field

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestTwoSoaksMakeOneImage(t *testing.T) {
	dir := t.TempDir()
	path, lock := filepath.Join(dir, "root"), filepath.Join(dir, "lock")
	if err := once(lock, path, func() error { return errors.New("no network") }); err == nil {
		t.Error("a failure is none")
	}
	var made, at atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			err := once(lock, path, func() error {
				made.Add(1)
				if at.Add(1) > 1 {
					t.Error("two at a time")
				}
				defer at.Add(-1)
				return os.WriteFile(path, []byte("image"), 0o600)
			})
			if text, readErr := os.ReadFile(path); err != nil || string(text) != "image" {
				t.Errorf("%v, %v: %q", err, readErr, text)
			}
		})
	}
	all.Wait()
	if made.Load() != 1 {
		t.Errorf("made %d times", made.Load())
	}
}
