package tape

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// noise is a text that can't be compressed much.
func noise(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte('!' + rand.IntN(90))
	}
	return append(out, '\n')
}

func size(t *testing.T, dir string) (sum int64, files int) {
	t.Helper()
	names, err := Segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		sum += info.Size()
	}
	return sum, len(names)
}

func TestARingTakesABoundedPartOfTheDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "record")
	r, err := Open(dir, MinSize, 0)
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "000000000.tape.gz.old")
	if err := os.WriteFile(foreign, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := 0
	for range 200 {
		more, err := r.Append(noise(100 << 10))
		if err != nil {
			t.Fatal(err)
		}
		if more {
			full++
			if err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		if sum, files := size(t, dir); sum > MinSize+200<<10 || files > maxSegments {
			t.Fatalf("%d octets in %d files", sum, files)
		}
	}
	if sum, files := size(t, dir); full < 20 || sum < MinSize/2 || files < 8 {
		t.Errorf("%d segments were full; %d octets in %d files are left", full, sum, files)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error("a file that is no segment was deleted")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A daemon that crashes again and again must not lose the recording of why, nor one whose disk is full.
func TestManyShortSegmentsKeepTheOldest(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(dir, MinSize, 0)
	if err != nil {
		t.Fatal(err)
	}
	cause := noise(1 << 20)
	if _, err := r.Append(cause); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if r, err = Open(dir, MinSize, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Append([]byte("it starts\n")); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 { // tries on a full disk
		if err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	names, err := Segments(dir)
	if err != nil || len(names) != 102 || filepath.Base(names[0]) != name(1) {
		t.Errorf("%d segments, from %q, %v", len(names), names[:1], err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A process that is killed leaves what it flushed, and the next one goes on behind it.
func TestASegmentIsReadableAtOnce(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(dir, MinSize, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, MinSize, 0); err == nil {
		t.Error("two processes record in one folder")
	}
	want := []byte("one\ntwo\n")
	if _, err := r.Append(want); err != nil {
		t.Fatal(err)
	}
	names, err := Segments(dir)
	if err != nil || len(names) != 1 {
		t.Fatalf("%q, %v", names, err)
	}
	file, err := os.Open(names[0])
	if err != nil {
		t.Fatal(err)
	}
	lines, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(lines); !bytes.Equal(got, want) || err == nil {
		t.Errorf("%q, %v: want the lines, and that the end is missing", got, err)
	}
	_ = r.lock.Close() // what is left of a killed process
	again, err := Open(dir, MinSize, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Append(want); err != nil {
		t.Fatal(err)
	}
	if names, _ = Segments(dir); len(names) != 2 || filepath.Base(names[1]) != "000000002.tape.gz" {
		t.Errorf("%q", names)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestAFolderThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, MinSize, 0); err == nil {
		t.Error("a file is a folder")
	}
}

// Somebody tidies up: what is written into a deleted file is lost, so the next segment begins in a new folder, which is
// this process's alone, too.
func TestAFolderThatIsDeletedComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "record")
	r, err := Open(dir, MinSize, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Append([]byte("deleted\n")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Append([]byte("lost\n")); err == nil {
		t.Error("a line is written nowhere")
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Next(); err == nil {
			t.Error("a file is a folder")
		}
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Append([]byte("kept\n")); err != nil {
		t.Error(err)
	}
	if _, err := Open(dir, MinSize, 0); err == nil {
		t.Error("two processes record in one folder")
	}
	if sum, files := size(t, dir); sum == 0 || files != 1 {
		t.Errorf("%d octets in %d files", sum, files)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	other, err := Open(dir, MinSize, 0) // of another process, which was faster
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Next(); err == nil {
		t.Error("two processes record in one folder")
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if _, files := size(t, dir); files != 0 { // without a line
		t.Errorf("%d files", files)
	}
	if err := r.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// A recording is the first that goes without on a disk that is nearly full, and goes on when there is room again.
func TestARingLeavesTheDiskToOthers(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(dir, MinSize, 1<<62) // more than any disk has
	if err != nil {
		t.Fatalf("nothing is recorded later, either: %v", err)
	}
	if _, err := r.Append([]byte("lost\n")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("it takes what others need: %v", err)
	}
	for range 3 {
		if err := r.Next(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("another segment begins: %v", err)
		}
	}
	if sum, files := size(t, dir); sum > 0 || files > 0 {
		t.Errorf("%d octets in %d files", sum, files)
	}
	r.spare = 0 // others have deleted something
	if err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Append([]byte("kept\n")); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// What is in the folder and is no file of the ring is neither read nor deleted, and ends no recording; and the order of
// segments is that of their numbers, however many digits those have.
func TestWhatIsNoSegmentEndsNoRecording(t *testing.T) {
	dir := t.TempDir()
	for _, foreign := range []string{name(1) + "/x", name(2) + "/x", "000" + suffix + "/x"} {
		if err := os.MkdirAll(filepath.Join(dir, foreign), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, name(3))); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, name(4)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, number := range []string{"-00000001", "99999999999999999999", "+00000001", "00000001 "} {
		if err := os.WriteFile(filepath.Join(dir, number+suffix), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r, err := Open(dir, MinSize, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 * MinSize / (256 << 10) { // all segments before are deleted
			if _, err := r.Append(noise(256 << 10)); err != nil {
				t.Fatal(err)
			}
			if err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name(999_999_990)), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names, err := Segments(dir)
	if n := len(names); err != nil || n < 8 || filepath.Base(names[n-1]) < "1000000001" || len(filepath.Base(names[1])) !=
		len(name(1_000_000_000)) {
		t.Errorf("%q, %v", names, err)
	}
	for _, e := range entries {
		if _, err := os.Lstat(filepath.Join(dir, e.Name())); err != nil {
			t.Error(err)
		}
	}
}
