package firewall

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/platform/proc"
)

func TestAFailedListingNamesItsCommand(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	f := New(proc.New(""), nil, func(int) string { return dir })
	if err := os.WriteFile(filepath.Join(dir, "iptables-save"), []byte("#!/bin/sh\necho no such thing >&2; exit 3\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	_, observed := f.Observe(t.Context(), 1, true)
	_, _, numbered := f.Numbers(t.Context())
	for _, err := range []error{observed, numbered} {
		if err == nil || !strings.Contains(err.Error(), "iptables-save -t filter: ") ||
			!strings.Contains(err.Error(), "no such thing") {
			t.Errorf("the error is %v, want the command and its words in it", err)
		}
	}
}
