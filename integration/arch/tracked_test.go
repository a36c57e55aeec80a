package arch

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// maxTracked is more than the largest file of real data has.
const maxTracked = 256 << 10

// A binary that was committed stays in every clone for ever.
func TestNoBuiltFileIsCommitted(t *testing.T) {
	t.Parallel()
	dir := root(t)
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = dir
	out, err := list.Output()
	if err != nil {
		t.Skipf("git says no list of files (a tree without its history?): %v", err)
	}
	names := bytes.Split(bytes.TrimRight(out, "\x00"), []byte{0})
	if len(names) < 1000 {
		t.Fatalf("git lists %d files: expected those of the whole tree", len(names))
	}
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir, string(name)))
		if err != nil || !info.Mode().IsRegular() {
			continue // removed, and not committed yet
		}
		if info.Size() > maxTracked {
			t.Errorf("%s: %d bytes: expected at most %d in a file that is committed", name, info.Size(), maxTracked)
		}
		text, err := os.ReadFile(filepath.Join(dir, string(name)))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(text, []byte("\x7fELF")) {
			t.Errorf("%s: a program: expected its source", name)
		}
	}
}
