package firewall

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeTools makes PATH a folder with one script named iptables.
func fakeTools(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if script != "" {
		if err := os.WriteFile(filepath.Join(dir, "iptables"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

func TestTheBackendIsNamed(t *testing.T) {
	fakeTools(t, "echo 'iptables v1.8.9 (nf_tables)'")
	if v, err := Backend(t.Context()); v != "1.8.9" || err != nil {
		t.Errorf("it is %q, %v", v, err)
	}
}

func TestAHostWithoutIptablesIsTold(t *testing.T) {
	fakeTools(t, "")
	if v, err := Backend(t.Context()); err == nil || !strings.Contains(err.Error(), "find iptables") {
		t.Errorf("it is %q, %v", v, err)
	}
}

func TestAHangingIptablesIsLeftAlone(t *testing.T) {
	fakeTools(t, "exec /bin/sleep 5\n")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Backend(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ended with %v", err)
	}
}
