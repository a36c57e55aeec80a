package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

func newTestOpener(t *testing.T) *netnsOpener {
	t.Helper()
	o, err := newNetnsOpener("")
	if err != nil {
		t.Fatal(err)
	}
	o.dir = t.TempDir()
	return o
}

// What is at a path may be anything. None of these may be opened, some are waited for.
func TestWhatIsNoNamespaceIsRefused(t *testing.T) {
	o := newTestOpener(t)
	in := func(name string) string { return filepath.Join(o.dir, name) }
	pid := fmt.Sprintf("/proc/%d/ns/net", os.Getpid())
	for _, err := range []error{
		unix.Mkfifo(in("fifo"), 0o644), os.WriteFile(in("plain"), nil, 0o644), os.Mkdir(in("folder"), 0o755),
		os.Symlink(pid, in("link")), os.Symlink("loop", in("loop")), os.Symlink("nowhere", in("dangling")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		why     string
		waiting bool
	}{
		"fifo":                   {"not a network namespace", false},
		in("fifo"):               {"not a network namespace", false},
		"folder":                 {"not a network namespace", false},
		"/dev/null":              {"not a network namespace", false},
		"/proc/self/status":      {"not a network namespace", false},
		"link":                   {"path leads through /proc", false},
		pid:                      {"path leads through /proc", false},
		"/proc/self/root/" + pid: {"path leads through /proc", false},
		"loop":                   {"a loop of links", false},
		"plain":                  {"it is not mounted", true},
		"missing":                {"it does not exist", true},
		"dangling":               {"it does not exist", true},
	} {
		f, err := o.get(t.Context(), name)
		if f != nil || err == nil || !strings.Contains(err.Error(), c.why) ||
			errors.Is(err, netstate.ErrWaiting) != c.waiting {
			t.Errorf("%s: %v, %v; want %q, waiting %v", name, f, err, c.why, c.waiting)
		}
	}
}

// Only what Watch reports may be retried rarely: a name in its folder, or a namespace mounted on a file there.
func TestWhatIsAnnounced(t *testing.T) {
	o := newTestOpener(t)
	elsewhere := filepath.Join(t.TempDir(), "missing")
	for _, err := range []error{
		os.WriteFile(filepath.Join(o.dir, "plain"), nil, 0o644), os.Symlink(elsewhere, filepath.Join(o.dir, "dangling")),
		os.Symlink("plain", filepath.Join(o.dir, "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, announced := range map[string]bool{
		"missing": true, "plain": true, filepath.Join(o.dir, "missing"): true,
		"dangling": false, "link": false, elsewhere: false,
	} {
		_, err := o.get(t.Context(), name)
		if !errors.Is(err, netstate.ErrWaiting) || errors.Is(err, netstate.ErrAnnounced) != announced {
			t.Errorf("%s: %v; want announced %v", name, err, announced)
		}
	}
}

// A path on a file system that does not answer costs the first who asks a second, the next ones
// nothing, and others nothing at all.
func TestAnOpeningThatHangsHoldsNobodyUp(t *testing.T) {
	o := newTestOpener(t)
	synctest.Test(t, func(t *testing.T) {
		answer, opened := make(chan struct{}), 0
		o.open = func(path string) (*os.File, error) {
			if strings.HasPrefix(path, "/hung/") {
				<-answer
			}
			opened++
			return os.Open(os.DevNull)
		}
		try := func(name string, want error, took time.Duration) {
			t.Helper()
			began := time.Now()
			f, err := o.get(t.Context(), name)
			if f != nil {
				f.Close()
			}
			if !errors.Is(err, want) || want == nil && err != nil || time.Since(began) != took {
				t.Errorf("%s: %v after %v, want %v after %v", name, err, time.Since(began), want, took)
			}
		}
		try("/hung/0", errHung, openTimeout)
		try("/hung/0", errHung, 0)
		try("/fine", nil, 0)
		for i := 1; i < maxHung; i++ {
			try(fmt.Sprint("/hung/", i), errHung, openTimeout)
		}
		began := time.Now()
		if _, err := o.get(t.Context(), "/hung/more"); err == nil || time.Since(began) != 0 || len(o.pending) != maxHung {
			t.Errorf("with %d that hang another is begun: %v after %v", len(o.pending), err, time.Since(began))
		}
		try("name", nil, 0)
		close(answer)
		synctest.Wait()
		try("/hung/0", nil, 0)
		try("/hung/more", nil, 0)
		if len(o.pending) != 0 || opened != maxHung+4 {
			t.Errorf("%d are still open, %d were opened", len(o.pending), opened)
		}
	})
}

// Networks whose apps share a namespace open it at the same time.
func TestManyOpenOneNamespaceAtOnce(t *testing.T) {
	o := newTestOpener(t)
	o.open = func(string) (*os.File, error) { return os.Open(os.DevNull) }
	errs := make(chan error)
	for range 50 {
		go func() {
			f, err := o.get(context.WithoutCancel(t.Context()), "app")
			if f != nil {
				f.Close()
			}
			errs <- err
		}()
	}
	for range 50 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
