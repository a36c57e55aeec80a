package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestATail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.log")
	tail := NewTail(path, 100, 0)
	read := func(of *Tail, want string) {
		t.Helper()
		if got, err := of.Read(); err != nil || string(got) != want {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
	}
	read(tail, "")
	if err := errors.Join(tail.Append([]byte("a\n")), tail.Append([]byte("b\n"))); err != nil {
		t.Fatal(err)
	}
	read(tail, "a\nb\n")
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := tail.Append([]byte(strings.Repeat("x", 100))); err == nil {
		t.Error("it grows beyond its limit")
	}
	if err := errors.Join(tail.Replace([]byte("c\n")), tail.Append([]byte("d\n"))); err != nil {
		t.Fatal(err)
	}
	read(tail, "c\nd\n")

	// A crash has left a half line: the next start cuts it off before it appends.
	if err := os.WriteFile(path, []byte("c\nd\nhal"), 0o600); err != nil {
		t.Fatal(err)
	}
	next := NewTail(path, 100, 0)
	read(next, "c\nd\nhal")
	if err := next.Append([]byte("e\n")); err != nil {
		t.Fatal(err)
	}
	read(next, "c\nd\ne\n")

	// A file of others is read to its limit.
	if err := os.WriteFile(path, []byte(strings.Repeat("y", 1000)+"\nlast\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := NewTail(path, 100, 0).Read(); err != nil || len(got) != 100 || !strings.HasSuffix(string(got), "\nlast\n") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestATailLeavesTheDiskToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.log")
	if err := os.WriteFile(path, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tail := NewTail(path, 100, 1<<62)
	for name, err := range map[string]error{"append": tail.Append([]byte("b\n")), "replace": tail.Replace([]byte("b\n"))} {
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := tail.Read(); err != nil || string(got) != "a\n" {
		t.Errorf("%q, %v", got, err)
	}
	if err := NewTail(filepath.Join(t.TempDir(), "none", "events.log"), 100, 0).Append([]byte("b\n")); err == nil {
		t.Error("it writes into a folder that is not there")
	}
}
