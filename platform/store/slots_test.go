package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func reads(t *testing.T, s *Slots, name, want string) {
	t.Helper()
	got, err := s.Read(name)
	if want == "" && errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil || string(got) != want {
		t.Fatalf("%s is %.80q %v, want %.80q", name, got, err, want)
	}
}

// inodes returns the inodes of the files of a folder.
func inodes(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		var s unix.Stat_t
		must(t, unix.Stat(filepath.Join(dir, e.Name()), &s))
		out = append(out, fmt.Sprint(e.Name(), " ", s.Ino, " ", s.Size))
	}
	return strings.Join(out, "; ")
}

// Law 13's exception: an existing value is replaced by one overwrite in place and one sync of its data, a spare value
// and a removal by an overwrite alone.
func TestASlotIsWrittenInPlaceWithOneSync(t *testing.T) {
	dir := t.TempDir()
	s := NewSlots(filepath.Join(dir, "s"))
	var steps []string
	s.disk = disk{
		sync:   func(f *os.File) error { steps = append(steps, "sync"); return f.Sync() },
		rename: func(from, to string) error { steps = append(steps, "rename"); return os.Rename(from, to) },
		overwrite: func(f *os.File, text []byte) error {
			steps = append(steps, "write "+filepath.Base(f.Name()))
			return theDisk.overwrite(f, text)
		},
		datasync: func(f *os.File) error { steps = append(steps, "datasync"); return theDisk.datasync(f) },
	}
	record := strings.Repeat("r", 9000)
	for range 2 {
		must(t, s.Write("v", []byte(record)))
	}
	if got, want := steps, []string{"sync", "rename", "sync", "sync", "rename", "sync"}; !slices.Equal(got, want) {
		t.Errorf("the first two: %q", got)
	}
	steps = nil
	before := inodes(t, dir)
	for i := range 3 {
		record = strings.Repeat(fmt.Sprint(i), 9000+500*i)
		must(t, s.Write("v", []byte(record)))
		reads(t, s, "v", record)
	}
	if got, want := steps, []string{"write s-v.0",
		"datasync", "write s-v.1", "datasync", "write s-v.0", "datasync"}; !slices.Equal(got, want) {
		t.Errorf("further ones: %q", got)
	}
	if got := inodes(t, dir); got != before {
		t.Errorf("the files were %s and are %s", before, got)
	}
	steps = nil
	must(t, s.Remove("v"))
	reads(t, s, "v", "")
	must(t, s.Remove("v"))
	must(t, s.Write("v", []byte("again"))) // the value on the disk is not touched before the new one is there
	if got, want := steps, []string{"write s-v.1", "write s-v.1", "datasync"}; !slices.Equal(got, want) {
		t.Errorf("removed and written: %q", got)
	}
	for range 2 {
		must(t, s.WriteSpare("w", []byte("1")))
	}
	steps = nil
	for i := range 2 {
		must(t, s.WriteSpare("w", []byte(fmt.Sprint(i))))
		reads(t, s, "w", fmt.Sprint(i))
	}
	if got, want := steps, []string{"write s-w.0", "write s-w.1"}; !slices.Equal(got, want) {
		t.Errorf("spare: %q", got)
	}
	must(t, s.Write("v", []byte(strings.Repeat("long", 9000)))) // it grows
	reads(t, NewSlots(filepath.Join(dir, "s")), "v", strings.Repeat("long", 9000))
}

// A slot written by an earlier version is read, and its file is removed once the new form is written.
func TestASlotOfAnEarlierVersionIsReadAndGoesWithTheNextWrite(t *testing.T) {
	for what, change := range map[string]func(s *Slots) error{
		"write":  func(s *Slots) error { return s.Write("v", []byte("new")) },
		"spare":  func(s *Slots) error { return s.WriteSpare("v", []byte("new")) },
		"remove": func(s *Slots) error { return s.Remove("v") },
	} {
		dir := t.TempDir()
		must(t, WriteFile(filepath.Join(dir, "s-v"), []byte("old form"), 0o600))
		for range 2 {
			reads(t, NewSlots(filepath.Join(dir, "s")), "v", "old form")
		}
		s := NewSlots(filepath.Join(dir, "s"))
		s.disk.sync = func(*os.File) error { return unix.ENOSPC }
		if err := change(s); what != "remove" && !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s on a full disk: %v", what, err)
		} else if what != "remove" {
			reads(t, s, "v", "old form")
			reads(t, NewSlots(filepath.Join(dir, "s")), "v", "old form")
		}
		s = NewSlots(filepath.Join(dir, "s"))
		must(t, change(s))
		value, files := "new", "s-v.0"
		if what == "remove" {
			value, files = "", ""
		}
		if got := names(t, dir); got != files {
			t.Errorf("%s leaves %s", what, got)
		}
		reads(t, NewSlots(filepath.Join(dir, "s")), "v", value)

		// The power failed after the new form was written and before the old one was removed.
		must(t, os.WriteFile(filepath.Join(dir, "s-v"), []byte("old form"), 0o600))
		if what == "remove" {
			continue
		}
		s = NewSlots(filepath.Join(dir, "s"))
		reads(t, s, "v", "new")
		must(t, s.Write("v", []byte("newer")))
		if got := names(t, dir); got != "s-v.0 s-v.1" {
			t.Errorf("%s: both forms are left: %s", what, got)
		}
	}
}

// A full disk refuses a longer value. The old one is kept for all readers, and the next value that fits is written.
func TestASlotOnAFullDiskKeepsTheOldValue(t *testing.T) {
	dir := t.TempDir()
	s := NewSlots(filepath.Join(dir, "s"))
	for _, v := range []string{"one", "two", "three"} {
		must(t, s.Write("v", []byte(v)))
	}
	s.disk.overwrite = func(f *os.File, text []byte) error {
		info, err := f.Stat()
		must(t, err)
		if int64(len(text)) > info.Size() {
			must(t, theDisk.overwrite(f, text[:info.Size()]))
			return unix.ENOSPC
		}
		return theDisk.overwrite(f, text)
	}
	for range 3 {
		if err := s.Write("v", []byte(strings.Repeat("x", 20_000))); !errors.Is(err, unix.ENOSPC) ||
			!strings.HasPrefix(err.Error(), "write "+filepath.Join(dir, "s-v.1")) {
			t.Fatalf("got %v", err)
		}
		reads(t, s, "v", "three")
		reads(t, NewSlots(filepath.Join(dir, "s")), "v", "three")
	}
	must(t, s.Write("v", []byte("four")))
	reads(t, NewSlots(filepath.Join(dir, "s")), "v", "four")
}

// A read-only disk is read, and refuses writes.
func TestASlotThatMayOnlyBeReadIsRead(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{"one", "two"} {
		must(t, NewSlots(filepath.Join(dir, "s")).Write("v", []byte(v)))
	}
	for _, name := range []string{"s-v.0", "s-v.1"} {
		must(t, os.Chmod(filepath.Join(dir, name), 0o400))
	}
	s := NewSlots(filepath.Join(dir, "s"))
	reads(t, s, "v", "two")
	if os.Geteuid() == 0 {
		t.Skip("root writes whatever the mode says")
	}
	for what, err := range map[string]error{"write": s.Write("v", []byte("three")), "remove": s.Remove("v")} {
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", what, err)
		}
	}
	reads(t, s, "v", "two")
}

// Two processes that use the same slots each see what the other wrote, and neither overwrites the newest value.
func TestTwoThatUseASlotInTurnLoseNothing(t *testing.T) {
	dir := t.TempDir()
	both := []*Slots{NewSlots(filepath.Join(dir, "s")), NewSlots(filepath.Join(dir, "s"))}
	for i, who := range []int{0, 0, 1, 0, 1, 1, 1, 0, 0, 1} {
		s, value := both[who], fmt.Sprint("value ", i)
		newest := func() string { // the file with the last write
			for _, name := range []string{"s-v.0", "s-v.1"} {
				if text, _ := os.ReadFile(filepath.Join(dir, name)); strings.Contains(string(text),
					fmt.Sprint("value ", i-1, "\x00")) {
					return name
				}
			}
			return ""
		}()
		s.disk.overwrite = func(f *os.File, text []byte) error {
			now, err := os.ReadFile(f.Name())
			must(t, err)
			if filepath.Base(f.Name()) == newest && !bytes.Equal(now, text) { // writing the same again is harmless
				t.Errorf("write %d overwrites the newest value", i)
			}
			return theDisk.overwrite(f, text)
		}
		if i == 6 {
			must(t, s.Remove("v"))
			reads(t, both[1-who], "v", "")
			continue
		}
		must(t, s.Write("v", []byte(value)))
		reads(t, both[1-who], "v", value)
	}
}

// A slot that no write can have left behind is reported with both its files, and replaced by the next write.
func TestASlotWithoutAWholeHalfIsNamed(t *testing.T) {
	for what, damage := range map[string]func(text []byte) []byte{
		"a lost bit":      func(text []byte) []byte { text[30] ^= 1; return text },
		"an empty file":   func([]byte) []byte { return nil },
		"a file of zeros": func(text []byte) []byte { clear(text); return text },
		"half a file":     func(text []byte) []byte { return text[:40] },
	} {
		dir := t.TempDir()
		s := NewSlots(filepath.Join(dir, "s"))
		for _, v := range []string{"one", "two"} {
			must(t, s.Write("v", []byte(v+strings.Repeat(" and more", 10))))
		}
		for i, name := range []string{"s-v.1", "s-v.0"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, name), damage(text), 0o600))
			got, err := NewSlots(filepath.Join(dir, "s")).Read("v")
			if i == 0 && (err != nil || !strings.HasPrefix(string(got), "one")) {
				t.Errorf("%s, with the other half whole: %q %v", what, got, err)
			}
			if i == 1 && (err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "s-v.0: ") ||
				!strings.Contains(err.Error(), "s-v.1: ")) {
				t.Errorf("%s: %q %v", what, got, err)
			}
		}
		for _, s := range []*Slots{s, NewSlots(filepath.Join(dir, "s"))} {
			must(t, s.Write("v", []byte("three")))
			reads(t, NewSlots(filepath.Join(dir, "s")), "v", "three")
		}
	}
}

// A lost bit is detected wherever it was.
func TestEveryLostBitOfAHalfIsNoticed(t *testing.T) {
	for _, text := range [][]byte{appendHalf(nil, 7, []byte("a value"), false), appendHalf(nil, 8, nil, true)} {
		if h := parseHalf(text); !h.isWhole() {
			t.Fatal(h.fault)
		}
		for i := range 8 * len(text) {
			text[i/8] ^= 1 << (i % 8)
			if h := parseHalf(text); h.isWhole() || h.fault == nil {
				t.Errorf("bit %d is lost: %+v", i, h)
			}
			text[i/8] ^= 1 << (i % 8)
		}
	}
}

func FuzzParseHalf(f *testing.F) {
	f.Add(appendHalf(nil, 7, []byte("a value"), false))
	f.Add(append(appendHalf(nil, 8, nil, true), 0, 0))
	f.Fuzz(func(t *testing.T, text []byte) {
		h := parseHalf(text)
		if h.isWhole() != (h.fault == nil) {
			t.Fatalf("%+v", h)
		}
		if again := appendHalf(nil, h.n, h.value, h.gone); h.isWhole() && string(again) != string(text[:len(again)]) {
			t.Fatalf("%q is written as %q", text, again)
		}
	})
}
