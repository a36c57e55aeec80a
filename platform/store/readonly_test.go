package store

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// readOnly puts a folder on a read-only mount, for this test alone, until writable. A power cut during a compaction
// leaves a temporary file, and the errors that follow such a cut make a kernel mount a disk read-only.
func readOnly(t *testing.T, dir string) (writable func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	runtime.LockOSThread() // never unlocked: the runtime ends the thread, with its mounts, when the test's goroutine ends
	must(t, unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS))
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount(dir, dir, "", unix.MS_BIND, ""))
	must(t, unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return func() { must(t, unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT, "")) }
}

// A disk that became read-only is read, whatever a crash left on it. Once it accepts writes again the journal continues
// with its content.
func TestAReadOnlyDiskIsRead(t *testing.T) {
	dir := t.TempDir()
	b := buffered(t, dir)
	must(t, b.Put("t", "a", []byte("1")))
	boot, floor := b.Boot(), b.Floor()
	must(t, b.Close())
	must(t, os.WriteFile(filepath.Join(dir, ".journal.tmp-123"), []byte("half of a"), 0o600))

	writable := readOnly(t, dir)
	b = buffered(t, dir)
	if got := values(t, b, "t"); got != "a=1" {
		t.Fatalf("read: %q, health %+v", got, b.Health())
	}
	must(t, b.Put("t", "b", []byte("2")))
	if h := b.Health(); !strings.Contains(h.Fault, unix.EROFS.Error()) || b.Boot() == boot || b.Floor() == floor {
		t.Fatalf("boot %d, floor %d, health %+v", b.Boot(), b.Floor(), h)
	}
	writable()
	func() { // the timer's thread does not have this thread's mounts
		b.mu.Lock()
		defer b.mu.Unlock()
		b.catchUp()
	}()
	if got := values(t, b, "t"); b.Health().Fault != "" || got != "a=1 b=2" {
		t.Fatalf("writable: %q, health %+v", got, b.Health())
	}
	must(t, b.Close())
	if kept := Quarantined(filepath.Join(dir, journalName)); len(kept) > 0 {
		t.Errorf("set aside as damaged: %v", kept)
	}
	b = buffered(t, dir)
	if got := values(t, b, "t"); got != "a=1 b=2" {
		t.Errorf("the next start has %q", got)
	}
	if _, err := os.Lstat(filepath.Join(dir, ".journal.tmp-123")); !os.IsNotExist(err) {
		t.Errorf("what the crash left is there: %v", err)
	}
}
