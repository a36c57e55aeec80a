package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

// A change of a file, and how it is made in a conf folder.
var fileChanges = []struct {
	name   string
	change func(path func(string) string) error
}{
	{"nothing", func(func(string) string) error { return nil }},
	{"replaced", func(path func(string) string) error { return writeFile(path("opts"), "other") }},
	{"written in place", func(path func(string) string) error { return os.WriteFile(path("servers"), []byte("two"), 0o600) }},
	{"with its old times", func(path func(string) string) error { return writeLike(path("servers"), "six") }},
	{"removed", func(path func(string) string) error { return os.Remove(path("hosts/a")) }},
	{"new", func(path func(string) string) error { return writeFile(path("hosts/c"), "10.0.0.3") }},
	{"another mode", func(path func(string) string) error { return os.Chmod(path("hosts/b"), 0o600) }},
	{"another mode of a folder", func(path func(string) string) error { return os.Chmod(path("hosts"), 0o700) }},
	{"renamed", func(path func(string) string) error { return os.Rename(path("hosts/b"), path("hosts/d")) }},
	{"another kind", func(path func(string) string) error { return replaceByFIFO(path("opts")) }},
	{"all gone", func(path func(string) string) error { return os.RemoveAll(path("")) }},
}

// What is done to a file between two observations shows in the second, whatever was known of it.
func TestEveryChangeOfAFileIsObserved(t *testing.T) {
	h := &Host{dir: t.TempDir()}
	observe := func(h *Host, number int) netstate.State {
		t.Helper()
		s, err := h.observeFiles(number)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	path := func(number int) func(string) string {
		return func(name string) string { return filepath.Join(h.folder(number), confName, name) }
	}
	for i := range fileChanges {
		p := path(i)
		err := errors.Join(makeFolder(p("hosts")), writeFile(p("opts"), "first"), writeFile(p("servers"), "one"),
			writeFile(p("hosts/a"), "10.0.0.1"), writeFile(p("hosts/b"), "10.0.0.2"))
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range fileChanges {
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			if observe(h, i); h.files.get(i).isUnchanged() {
				break // from now on, its times tell the next change
			}
			if time.Now().After(end) {
				t.Fatal("the files are read again and again")
			}
		}
	}
	for i, x := range fileChanges {
		before := observe(h, i).String()
		if err := x.change(path(i)); err != nil {
			t.Fatal(err)
		}
		got, want := observe(h, i).String(), observe(&Host{dir: h.dir}, i).String()
		if got != want {
			t.Errorf("%s: observed\n%s\nwant\n%s", x.name, got, want)
		}
		if (got == before) != (x.name == "nothing") {
			t.Errorf("%s: observed as before: %v", x.name, got == before)
		}
	}
}

// Two changes within a tick of the kernel's clock leave the same times: a file that has just changed is read again.
func TestAFileThatHasJustChangedIsReadAgain(t *testing.T) {
	h := &Host{dir: t.TempDir()}
	path := filepath.Join(h.folder(1), confName, "opts")
	for _, text := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} { // of one size, in one file
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := h.observeFiles(1)
		if err != nil {
			t.Fatal(err)
		}
		f, _ := s[netstate.ID{Kind: netstate.KindFile, Name: "ni/1/conf/opts"}].(netstate.File)
		if f.Content != text {
			t.Fatalf("observed %q, want %q", f.Content, text)
		}
	}
}

// writeLike writes a file of the same size in place and gives it back the time of its last change.
func writeLike(path, content string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Chtimes(path, st.ModTime(), st.ModTime())
}

func replaceByFIFO(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return unix.Mkfifo(path, 0o644)
}
