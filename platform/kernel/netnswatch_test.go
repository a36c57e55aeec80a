package kernel

import (
	"os"
	"path/filepath"
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
			in := make(chan news)
			if err := watchNetns(t.Context(), dir, open, in); err != nil {
				t.Fatal(err)
			}
			told := func(what string) {
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
			told("a name that comes")
			if err := os.Remove(web); err != nil {
				t.Fatal(err)
			}
			told("a name that goes")
		})
	}
}
