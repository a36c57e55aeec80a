package daemon

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestNotifierReachesTheSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	Notifier(path)("WATCHDOG=1")
	buf := make([]byte, 64)
	n, err := l.Read(buf)
	if err != nil || string(buf[:n]) != "WATCHDOG=1" {
		t.Errorf("the socket got %q, %v", buf[:n], err)
	}
	Notifier("")("WATCHDOG=1") // nobody listens: nothing happens
	Notifier(path + "-gone")("WATCHDOG=1")
}

func TestFilesKeepTheSlots(t *testing.T) {
	dir := t.TempDir()
	f := NewFiles("", dir)
	if _, err := f.Read("pending"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without one: %v, want fs.ErrNotExist", err)
	}
	for _, text := range []string{"one", "two"} {
		if err := f.Write("pending", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := f.Read("pending"); err != nil || string(b) != text {
			t.Errorf("read %q, %v; want %q", b, err, text)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 || left[0].Name() != "config-pending.0" || left[1].Name() != "config-pending.1" {
		t.Errorf("the folder holds %v, %v: the two files of a slot are wanted", left, err)
	}
	for range 2 {
		if err := f.Remove("pending"); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	if _, err := NewFiles("", dir).Read("pending"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v, want fs.ErrNotExist", err)
	}
}

func TestTheLastGoodConfigOfAnEarlierVersionIsReadAndTakenAway(t *testing.T) {
	dir := t.TempDir()
	f := NewFiles("", dir)
	if _, err := f.ReadLastGood(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without one: %v, want fs.ErrNotExist", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "last-good-config"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := f.ReadLastGood(); err != nil || string(b) != "{}" {
		t.Errorf("read %q, %v", b, err)
	}
	if err := f.RemoveLastGood(); err != nil {
		t.Error(err)
	}
	if _, err := f.ReadLastGood(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("taken away: %v, want fs.ErrNotExist", err)
	}
}

func TestFilesWithoutAConfigFileHaveNoName(t *testing.T) {
	if b, name, err := NewFiles("", t.TempDir()).ReadConfig(); b != nil || name != "" || err != nil {
		t.Errorf("got %q, %q, %v", b, name, err)
	}
	if _, name, err := NewFiles(filepath.Join(t.TempDir(), "none"), t.TempDir()).ReadConfig(); name == "" ||
		!errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %q, %v", name, err)
	}
}
