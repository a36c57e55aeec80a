package dnsmasq

import (
	"os"
	"path/filepath"
	"testing"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// A daemon that is killed while it removes the folder, or just after it made it, leaves one without a record. What
// stays in the run folder keeps a network's number from being used again.
func TestAFolderWithoutARecordIsRemoved(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "ni/3/dnsmasq")
	for _, d := range []string{folder, filepath.Join(dir, "ni/3/conf")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "leases"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h := New(proc.New(""), "", dir)
	s, err := h.Observe(t.Context(), 3, Environment{}, true)
	if err != nil || len(s) != 1 {
		t.Fatalf("observed %v, %v: must be the helper alone", s, err)
	}
	for _, o := range s {
		if err := h.Stop(t.Context(), o.(netstate.Process)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder stays: %v", err)
	}
}
