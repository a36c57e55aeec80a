package firewall

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/platform/proc"
)

// fakeIptables puts an iptables into PATH that notes each call and runs body.
func fakeIptables(t *testing.T, body string) (calls func() int) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\ncd " + dir + "\necho $$ >>calls\n" + body + "\n"
	if err := os.WriteFile(filepath.Join(dir, "iptables"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() int {
		b, _ := os.ReadFile(filepath.Join(dir, "calls"))
		return strings.Count(string(b), "\n")
	}
}

func TestAHangingIptablesIsAbandonedInTimeAndAskedOnce(t *testing.T) {
	release := filepath.Join(t.TempDir(), "release")
	calls := fakeIptables(t, "while ! [ -e "+release+" ]; do sleep 0.05; done\necho 'iptables v1.8.9 (nf_tables)'")
	let := func() { _ = os.WriteFile(release, nil, 0o600) }
	defer let() // nothing may be left behind
	f := New(proc.New(""), nil, func(int) string { return t.TempDir() })
	ask := func(d time.Duration) (Backend, error) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		return f.Backend(ctx)
	}

	began := time.Now()
	errs := make(chan error)
	for range 5 {
		go func() {
			_, err := ask(300 * time.Millisecond)
			errs <- err
		}()
	}
	for range 5 {
		if err := <-errs; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want its deadline", err)
		}
	}
	if _, err := ask(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v, want its deadline", err)
	}
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("6 callers waited %v", d)
	}
	if n := calls(); n != 1 {
		t.Errorf("%d commands were started beside one that hangs, want 1", n)
	}

	let()
	want := Backend{Version: "1.8.9", Mode: "nf_tables", Wait: true, RandomFully: true}
	if b, err := ask(time.Minute); err != nil || b != want { // the one that hung has ended
		t.Errorf("it is %+v, %v, want %+v", b, err, want)
	}
	before := calls()
	if b, err := ask(time.Minute); err != nil || b != want || calls() != before {
		t.Errorf("asked again it is %+v, %v after %d calls more, want none", b, err, calls()-before)
	}
}

func TestWhatIptablesCanDoFollowsFromItsVersion(t *testing.T) {
	for answer, want := range map[string]string{
		"iptables v1.8.9 (nf_tables)": "iptables v1.8.9 (nf_tables)",
		"iptables v1.8.7 (legacy)":    "iptables v1.8.7 (legacy)",
		"iptables v1.6.1":             "iptables v1.6.1 (legacy) without --random-fully",
		"iptables v1.4.19":            "iptables v1.4.19 (legacy) without -w without --random-fully",
	} {
		fakeIptables(t, "echo '"+answer+"'")
		b, err := New(proc.New(""), nil, nil).Backend(t.Context())
		if err != nil || b.String() != want {
			t.Errorf("%q is understood as %q, %v, want %q", answer, b, err, want)
		}
	}
}

func TestAFailedDetectionIsTriedAgain(t *testing.T) {
	calls := fakeIptables(t, "[ -e ok ] || { touch ok; exit 1; }\necho 'iptables v1.8.9 (legacy)'")
	f := New(proc.New(""), nil, nil)
	if b, err := f.Backend(t.Context()); err == nil || b.String() != "" {
		t.Errorf("a failing iptables is %q", b)
	}
	if b, err := f.Backend(t.Context()); err != nil || b.Mode != "legacy" || calls() != 3 {
		t.Errorf("then it is %q, %v after %d calls", b, err, calls())
	}
}
