package store

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// reserve is disk space held back for a full disk.
type reserve struct{ path string }

const (
	reserveName = "reserve"
	reserveSize = 1 << 20
)

// acquire reserves the space if it is not reserved yet. It leaves several times as much for others: reserving the last
// space would fill the disk.
func (r reserve) acquire() error {
	if s, err := os.Stat(r.path); err == nil && s.Size() >= reserveSize {
		return nil
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(r.path), &disk); err != nil {
		return err
	}
	if disk.Bavail*uint64(disk.Bsize) < 4*reserveSize { // the kernel returns no negative size
		return unix.ENOSPC
	}
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, reserveSize)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = nil // such a disk reserves nothing
	}
	if err != nil {
		_ = f.Truncate(0)
	}
	return errors.Join(err, f.Close())
}

// release frees the space, and reports whether there was any.
func (r reserve) release() bool {
	s, err := os.Stat(r.path)
	return err == nil && s.Size() > 0 && os.Truncate(r.path, 0) == nil
}
