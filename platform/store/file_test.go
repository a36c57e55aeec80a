package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

func TestWriteFileReplacesTheWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.json")
	for _, content := range []string{"first, and longer", "second", ""} {
		must(t, WriteFile(path, []byte(content), 0o640))
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("got %q %v, want %q", got, err, content)
		}
	}
	if got := names(t, dir); got != "config.json" {
		t.Errorf("left in the folder: %s", got)
	}
}

func TestWriteFileModeIsExact(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	for _, perm := range []os.FileMode{0o644, 0o600, 0o755} {
		path := filepath.Join(t.TempDir(), "f")
		must(t, WriteFile(path, nil, perm))
		if info, err := os.Stat(path); err != nil || info.Mode() != perm {
			t.Errorf("mode %v %v, want %v", info.Mode(), err, perm)
		}
	}
}

// watchedDisk records each step with the content of the file at that time, and fails from step failAt on, as if the
// power had failed.
func watchedDisk(t *testing.T, path string, failAt int) (disk, *[]string) {
	var steps []string
	step := func(what string) error {
		content, err := os.ReadFile(path)
		must(t, err)
		steps = append(steps, what+" with "+string(content)+" in place")
		if len(steps) > failAt {
			return unix.EIO
		}
		return nil
	}
	return disk{
		sync: func(f *os.File) error {
			what := "sync folder"
			if content, err := os.ReadFile(f.Name()); err == nil {
				what = "sync " + string(content)
			}
			return errors.Join(step(what), f.Sync())
		},
		rename: func(from, to string) error {
			if err := step("rename"); err != nil {
				return err
			}
			return os.Rename(from, to)
		},
	}, &steps
}

// Law 13: the content is synced before it gets the name, and the folder after. Whichever step fails, either the old or
// the new content is there, complete.
func TestWriteFileStepByStep(t *testing.T) {
	request := []string{"sync new with old in place", "rename with old in place", "sync folder with new in place"}
	for failAt := range len(request) + 1 {
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		must(t, WriteFile(path, []byte("old"), 0o600))
		d, steps := watchedDisk(t, path, failAt)
		renamed, err := d.replace(path, []byte("new"), 0o600)
		if want := failAt < len(request); errors.Is(err, unix.EIO) != want {
			t.Errorf("fail at %d: %v", failAt, err)
		}
		if !slices.Equal(*steps, request[:min(failAt+1, len(request))]) {
			t.Errorf("fail at %d: %q", failAt, *steps)
		}
		content := map[bool]string{false: "old", true: "new"}[renamed]
		if got, err := os.ReadFile(path); err != nil || string(got) != content || renamed != (failAt >= 2) {
			t.Errorf("fail at %d: %q %v, renamed %v", failAt, got, err, renamed)
		}
		if got := names(t, dir); got != "f" {
			t.Errorf("fail at %d: left in the folder: %s", failAt, got)
		}
	}
}

// A new folder is synced into its parent, and so are its parents.
func TestMakeDirSyncsEachParent(t *testing.T) {
	top := t.TempDir()
	var synced []string
	d := disk{sync: func(f *os.File) error {
		rel, err := filepath.Rel(top, f.Name())
		must(t, err)
		synced = append(synced, rel)
		return f.Sync()
	}}
	must(t, d.makeDir(filepath.Join(top, "a", "b", "c"), 0o755))
	must(t, d.makeDir(filepath.Join(top, "a", "b", "c"), 0o755))
	if got := strings.Join(synced, " "); got != ". a a/b" {
		t.Errorf("synced: %s", got)
	}
	must(t, os.WriteFile(filepath.Join(top, "file"), nil, 0o600))
	if err := d.makeDir(filepath.Join(top, "file", "x"), 0o755); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
}

// A reader that has the file open keeps the complete old content, so the file is replaced and never written in place.
func TestWriteFileLeavesTheOldContentToItsReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, WriteFile(path, []byte("old"), 0o600))
	reader, err := os.Open(path)
	must(t, err)
	defer reader.Close()
	must(t, WriteFile(path, []byte("new"), 0o600))
	got := make([]byte, 10)
	if n, err := reader.Read(got); err != nil || string(got[:n]) != "old" {
		t.Errorf("an open reader got %q %v", got[:n], err)
	}
}

func TestWriteFileThatFailsLeavesTheOldContent(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "taken")
	must(t, os.MkdirAll(filepath.Join(target, "by a folder"), 0o700))
	err := WriteFile(target, []byte("new"), 0o600)
	if err == nil || !strings.HasPrefix(err.Error(), "write "+target+": ") {
		t.Fatalf("got %v", err)
	}
	if got := names(t, dir); got != "taken" {
		t.Errorf("left in the folder: %s", got)
	}
	if err := WriteFile(filepath.Join(dir, "missing", "f"), nil, 0o600); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
}

func TestSweepRemovesOnlyOurTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		".config.json.tmp-123", ".a.tmp-b.tmp-9", // created by this package
		"config.json", ".hidden", "x.tmp-123", ".x.tmp-", ".x.tmp-12a", ".tmp-5x",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	must(t, os.Mkdir(filepath.Join(dir, ".folder.tmp-1"), 0o700))
	must(t, Sweep(dir))
	if got, want := names(t, dir), ".folder.tmp-1 .hidden .tmp-5x .x.tmp- .x.tmp-12a config.json x.tmp-123"; got != want {
		t.Errorf("left: %s\nwant: %s", got, want)
	}
	must(t, Sweep(filepath.Join(dir, "missing")))
	if err := Sweep(filepath.Join(dir, "config.json")); err == nil {
		t.Error("a file was swept")
	}
}

func TestNodeIDIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := NodeID(dir)
	must(t, err)
	second, err := NodeID(dir)
	must(t, err)
	if first != second {
		t.Errorf("%s, then %s", first, second)
	}
	other, err := NodeID(t.TempDir())
	if must(t, err); other == first {
		t.Errorf("two nodes share %s", other)
	}
	text, err := os.ReadFile(filepath.Join(dir, "node-id"))
	if must(t, err); string(text) != first.String()+"\n" {
		t.Errorf("on disk: %q", text)
	}
}

func TestADamagedNodeIDIsKeptAndNamed(t *testing.T) {
	for _, content := range []string{
		"", "\n", "00000000-0000-0000-0000-000000000000", "1B4E28BA-2FA1-4D7B-883F-0016D3CCA427",
		"{1b4e28ba-2fa1-4d7b-883f-0016d3cca427}", "1b4e28ba-2fa1-4d7b-883f-0016d3cca427 x", strings.Repeat("x", 5000),
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "node-id")
		must(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := NodeID(dir)
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "must be") ||
			len(err.Error()) > 400 {
			t.Errorf("%.50q: %v", content, err)
		}
		if kept, err := os.ReadFile(path); err != nil || string(kept) != content {
			t.Errorf("%.50q was changed to %.50q: %v", content, kept, err)
		}
	}
}

func TestBootNumberRisesAtEachStart(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir) // as a former release wrote it
	must(t, j.Put(bootTopic, bootKey, []byte("6")))
	must(t, j.Close())
	for want := uint64(7); want < 10; want++ {
		b := buffered(t, dir)
		if got := b.Boot(); got != want || b.Floor() != 0 || b.MayLackChanges() {
			t.Fatalf("boot %d, floor %d, want %d and 0", got, b.Floor(), want)
		}
		must(t, b.Close())
	}
	b := buffered(t, dir)
	must(t, b.Put(bootTopic, bootKey, []byte("many"))) // e.g. of another release
	must(t, b.Close())
	if b := buffered(t, dir); b.Boot() != 11 || b.Floor() == 0 || !b.MayLackChanges() || len(b.Health().Notes) != 1 {
		t.Fatalf("boot %d, floor %d, %+v", b.Boot(), b.Floor(), b.Health())
	}
}
