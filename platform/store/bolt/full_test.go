package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/config/kv"
)

// fullFile in the environment makes this test program the child whose disk is full: a limit of the size of files has
// the same effect, for the process alone.
const fullFile = "EDGESPAN_TEST_FULL_FILE"

// TestAFullDiskAndItsEnd: the store refuses writes, reports that once, still reads, and accepts writes again within
// seconds after there is room, without being reopened.
func TestAFullDiskAndItsEnd(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), fullFile+"="+filepath.Join(t.TempDir(), "store"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// fillUp is the child.
func fillUp(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	var reported []error
	s, err := Open(path, Options{Told: func(err error) { reported = append(reported, err) }})
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, last := context.Background(), 0
	write := func() error {
		_, err := s.Commit(ctx,
			kv.Txn{Then: []kv.Op{kv.Put("k", bytes.Repeat([]byte{byte(last + 1)}, 10_000)),
				kv.Put("n", fmt.Append(nil, last+1))}})
		if err == nil {
			last++
		}
		return err
	}
	if err := write(); err != nil {
		return err
	}
	lease, err := s.Grant(ctx, 2*time.Second)
	if err != nil {
		return err
	}
	whole, err := bound(256 << 10)
	if err != nil {
		return err
	}
	for err = write(); err == nil; err = write() {
		if last > 1000 {
			return errors.New("the disk is never full")
		}
	}
	if !errors.Is(err, kv.ErrUnwritten) || !errors.Is(s.CheckWritable(), kv.ErrUnwritten) {
		return fmt.Errorf("full: %v, %v", err, s.CheckWritable())
	}
	begun, refused := time.Now(), 0
	for time.Since(begun) < leastRest/2 {
		if err := write(); err == nil {
			return errors.New("it writes without room")
		}
		refused++
	}
	if refused < 1000 {
		return fmt.Errorf("it touches the disk for each of %d writes", refused)
	}
	if e, _, err := s.Get(ctx, "n"); err != nil || string(e.Value) != fmt.Sprint(last) {
		return fmt.Errorf("n is %s after %d: %v", e.Value, last, err)
	}
	if _, err := bound(whole); err != nil {
		return err
	}
	begun = time.Now()
	for s.CheckWritable() != nil { // it finds out by itself
		if time.Since(begun) > 30*time.Second {
			return fmt.Errorf("it does not come back: %w", s.CheckWritable())
		}
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(begun); took > 5*time.Second {
		return fmt.Errorf("it comes back after %s", took)
	}
	for range 100 {
		if err := write(); err != nil {
			return err
		}
	}
	for { // a lease that ended while nothing could be written is removed now
		if _, err := s.Keys(ctx, lease); errors.Is(err, kv.ErrNoLease) {
			break
		}
		if time.Since(begun) > 30*time.Second {
			return errors.New("the lease does not end")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(reported) != 2 || reported[0] == nil || reported[1] != nil {
		return fmt.Errorf("told: %v", reported)
	}
	if err := s.Close(); err != nil {
		return err
	}
	again, err := Open(path, Options{})
	if err != nil {
		return err
	}
	defer again.Close()
	if e, _, err := again.Get(ctx, "n"); err != nil || string(e.Value) != fmt.Sprint(last) {
		return fmt.Errorf("opened again n is %s after %d: %v", e.Value, last, err)
	}
	return nil
}

// bound sets the maximum size of this process's files and returns the previous one.
func bound(bytes uint64) (uint64, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &l); err != nil {
		return 0, err
	}
	was := l.Cur
	l.Cur = bytes
	return was, unix.Setrlimit(unix.RLIMIT_FSIZE, &l)
}

// TestACommitWithoutRoomForItsPages: such a commit is refused before anything reaches the disk.
func TestACommitWithoutRoomForItsPages(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "store"), Options{})
	put(t, s, kv.Put("a", []byte("1")))
	s.db.MaxSize = 1 // bbolt's own limit, which applies before anything is written
	_, err := s.Commit(t.Context(), kv.Txn{Then: []kv.Op{kv.Put("a", bytes.Repeat([]byte{1}, 1<<20))}})
	if !errors.Is(err, kv.ErrUnwritten) || !strings.Contains(err.Error(), "size") {
		t.Errorf("got %v", err)
	}
	select {
	case <-s.Broken():
		t.Error("it has to be opened again")
	default:
	}
}
