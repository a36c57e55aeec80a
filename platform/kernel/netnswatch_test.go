package kernel

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestNamesOfNamespacesAreSeenWithoutAnInotifyToo(t *testing.T) {
	none := func() (int, error) { return -1, unix.EMFILE }
	for name, open := range map[string]func() (int, error){"with": inotify, "without": none} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "netns")
			in := make(chan changes)
			if err := watchNetns(t.Context(), dir, open, in); err != nil {
				t.Fatal(err)
			}
			reported := func(what string) {
				t.Helper()
				select {
				case n := <-in:
					if !n.netns || n.err != nil {
						t.Errorf("%s: %+v", what, n)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("%s: nothing is told", what)
				}
			}
			web := filepath.Join(dir, "web")
			if err := os.MkdirAll(web, 0o755); err != nil {
				t.Fatal(err)
			}
			reported("a name that comes")
			if err := os.Remove(web); err != nil {
				t.Fatal(err)
			}
			reported("a name that goes")
		})
	}
}

func TestFingerprintIsOfNamesAndOfWhatTheyMean(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	seen := fingerprint(dir)
	for _, c := range []struct {
		what string
		do   func() error
		same bool
	}{
		{"nothing", func() error { return nil }, true},
		{"a name comes", func() error { return os.WriteFile(at("a"), nil, 0o600) }, false},
		{"another comes", func() error { return os.WriteFile(at("b"), nil, 0o600) }, false},
		{"one means what the other did", func() error { return os.Rename(at("a"), at("b")) }, false},
		{"it is called otherwise", func() error { return os.Rename(at("b"), at("c")) }, false},
		{"nothing again", func() error { return nil }, true},
		{"it goes", func() error { return os.Remove(at("c")) }, false},
	} {
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		if now := fingerprint(dir); (now == seen) != c.same {
			t.Errorf("%s: the same is %v, want %v", c.what, now == seen, c.same)
		} else {
			seen = now
		}
	}
}

// It is taken each second where no inotify is left, of some hundred namespaces.
func TestAFingerprintCostsLittleMoreThanItsNames(t *testing.T) {
	const names = 300
	dir := t.TempDir()
	for i := range names {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(5, func() { fingerprint(dir) }); n > 2.5*names {
		t.Errorf("%v allocations for %d names", n, names)
	}
}
