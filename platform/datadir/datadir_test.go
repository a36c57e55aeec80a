package datadir

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func opened(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestOneControllerHoldsAFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder")
	d := opened(t, path)
	if m := mode(t, path); m != 0o700 {
		t.Errorf("the folder has mode %04o", m)
	}
	_, err := Open(path)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), filepath.Join(path, "lock")) {
		t.Errorf("a second controller: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	opened(t, path)
}

func TestReplicaIsNamedOnce(t *testing.T) {
	d := opened(t, t.TempDir())
	first, err := d.Replica("")
	if err != nil || first == "" {
		t.Fatalf("%q, %v", first, err)
	}
	for _, step := range []struct{ desired, name string }{{"", first}, {"north", "north"}, {"", "north"}} {
		if got, err := d.Replica(step.desired); err != nil || got != step.name {
			t.Errorf("Replica(%q) = %q, %v: want %q", step.desired, got, err, step.name)
		}
	}
	for _, bad := range []string{"a/b", ".hidden", strings.Repeat("x", 64), "a b"} {
		if _, err := d.Replica(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if err := os.WriteFile(d.Path("replica"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Replica(""); err == nil {
		t.Errorf("an empty file was taken for %q", got)
	}
	other, err := opened(t, t.TempDir()).Replica("")
	if err != nil || other == first {
		t.Errorf("two controllers of one machine are called %q (%v)", other, err)
	}
}

func TestSecretsAreMadeOnceAndKeptFromOthers(t *testing.T) {
	d := opened(t, t.TempDir())
	key, err := d.Mask()
	if err != nil || len(key) != MaskKey {
		t.Fatalf("%x, %v", key, err)
	}
	if again, err := d.Mask(); err != nil || !bytes.Equal(again, key) {
		t.Errorf("the key became %x, %v", again, err)
	}
	if _, err := d.Token(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it was made: %v", err)
	}
	if err := d.KeepToken("secret"); err != nil {
		t.Fatal(err)
	}
	if text, err := d.Token(); err != nil || text != "secret" {
		t.Errorf("%q, %v", text, err)
	}
	for _, path := range []string{d.TokenFile(), d.Path("mask.key")} {
		if m := mode(t, path); m != 0o600 {
			t.Errorf("%s has mode %04o", path, m)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Token(); err == nil || !strings.Contains(err.Error(), "0640") {
		t.Errorf("a token that others read: %v", err)
	}
	if _, err := d.Mask(); err == nil {
		t.Error("a key that others read was taken")
	}
	if err := os.WriteFile(d.Path("mask.key"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(d.Path("mask.key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Mask(); err == nil {
		t.Error("a broken key was taken, or replaced")
	}
}

type entry struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func TestAuditAppendsWholeLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(`{"n":0,"te`), 0o600); err != nil { // a crash cut it
		t.Fatal(err)
	}
	a, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			if err := a.Write(entry{n, "two\nlines"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	got := lines(t, path)
	if len(got) != 21 {
		t.Fatalf("%d lines: %q", len(got), got)
	}
	seen := map[int]bool{}
	for _, l := range got[1:] {
		var e entry
		if err := json.Unmarshal([]byte(l), &e); err != nil || e.Text != "two\nlines" {
			t.Errorf("%q: %v", l, err)
		}
		seen[e.N] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d different entries", len(seen))
	}
	if err := a.Write(entry{}); err == nil {
		t.Error("a closed log took an entry")
	}
}

func TestAuditIsRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	a, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for n, rotated := range []string{"one", "two"} {
		if err := a.Write(entry{n, "before"}); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path, path+rotated); err != nil {
			t.Fatal(err)
		}
		if err := a.Write(entry{n, "between"}); err != nil {
			t.Fatal(err)
		}
		if err := a.Reopen(); err != nil {
			t.Fatal(err)
		}
		if got := lines(t, path+rotated); len(got) != 2 {
			t.Errorf("rotated: %q", got)
		}
		if m := mode(t, path); m != 0o600 {
			t.Errorf("mode %04o", m)
		}
	}
	if err := a.Write(entry{9, "after"}); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, path); len(got) != 1 || !strings.Contains(got[0], "after") {
		t.Errorf("the new file: %q", got)
	}
}
