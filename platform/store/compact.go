package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// open reads the log under the lock and leaves it intact and, if the disk allows, compact.
func (j *Journal) open() error {
	_ = Sweep(filepath.Dir(j.path)) // even a disk that refuses writes has a log to read
	log, err := os.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		_, err := j.rewrite()
		return err
	}
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	records, end, corrupt := scan(log)
	if corrupt != nil {
		corrupt.Path = j.path
		return corrupt
	}
	for _, r := range records {
		j.apply(r)
	}
	if err := j.reopen(int64(end)); err != nil {
		return err
	}
	if base, _ := scanHeader(log); base == len(log) {
		return nil // nothing was appended since the last compaction
	}
	if err := j.repair(int64(len(log) - end)); err != nil {
		return err
	}
	return j.compact()
}

// repair cuts a torn tail and syncs the rest, which a killed daemon may have written without a sync. It works in place,
// so that it succeeds on a full disk, on which the following compaction fails.
func (j *Journal) repair(torn int64) error {
	if torn > 0 {
		if err := j.file.Truncate(j.size); err != nil {
			return fmt.Errorf("cut journal %s at %d: %w", j.path, j.size, err)
		}
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("sync journal %s: %w", j.path, err)
	}
	j.stats.Torn = torn
	return nil
}

// reopen opens the log that now has the name.
func (j *Journal) reopen(size int64) error {
	f, err := os.OpenFile(j.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	j.file, j.size = f, size
	return nil
}

// compactIfWorth compacts when garbage outgrows the live data. A failure loses no value, because the old log stays in
// use; it is recorded and retried when the log has grown by half.
func (j *Journal) compactIfWorth() {
	if j.size < j.retryAt || j.size <= 2*j.stats.Live+slack {
		return
	}
	if err := j.compact(); err != nil {
		j.markBroken(err)
	}
}

// compact replaces the log by one without garbage. After an error of compact, the old log must not be written any more.
func (j *Journal) compact() error {
	old := j.file
	renamed, err := j.rewrite()
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case err == nil:
		j.retryAt = 0
		j.stats.Compactions++
		j.stats.CompactErr = nil
		if old != nil {
			_ = old.Close() // the new log has all its data
		}
		return nil
	case renamed: // appending to the old log would be lost
		return err
	default:
		j.retryAt = j.size + j.size/2
		j.stats.CompactErr = err
		return nil
	}
}

// rewrite writes a new log of the live data and opens it; renamed reports whether the new log has replaced the old
// one's name.
func (j *Journal) rewrite() (renamed bool, err error) {
	log := snapshot(j.live)
	if renamed, err := j.disk.replace(j.path, log, journalPerm); err != nil {
		return renamed, err
	}
	return true, j.reopen(int64(len(log)))
}

// renew replaces a log that takes no more writes with a new log of the live data. After an error the old log and its
// known state are unchanged.
func (j *Journal) renew() error {
	j.writing.Lock()
	defer j.writing.Unlock()
	if errors.Is(j.broken, os.ErrClosed) {
		return j.broken
	}
	old := j.file
	if _, err := j.rewrite(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broken, j.retryAt = nil, 0
	if old != nil {
		_ = old.Close()
	}
	return nil
}

func (j *Journal) isBroken() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.broken != nil
}
