package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Rotation bounds the size of a log: a file that has reached its limit becomes PATH.kept.1, the file before it
// PATH.kept.2, and the oldest is deleted. The names differ from logrotate's PATH.1 and so on, which logrotate would
// overwrite. Rotation is safe for concurrent use.
type Rotation struct {
	Path  string
	Limit int64 // of one file; 0: no limit
	Keep  int   // files in addition to the current one

	mu     sync.Mutex
	looked time.Time
}

// rotationCheckEvery is the interval of checks of a log's size.
const rotationCheckEvery = time.Second

// Due rotates the files if necessary, and reports whether the log must be reopened.
func (r *Rotation) Due(now time.Time) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := now.Sub(r.looked); r.Limit <= 0 || d >= 0 && d < rotationCheckEvery {
		return false, nil
	}
	r.looked = now
	info, err := os.Stat(r.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil // an earlier rotation moved it, and the reopening failed
	case err != nil:
		return false, err
	case info.Size() < r.Limit:
		return false, nil
	}
	if err := rotate(r.Path, r.Keep); err != nil {
		return false, err
	}
	return true, syncFolder(filepath.Dir(r.Path))
}

// rotate renames a log and its rotated files, of which it keeps so many.
func rotate(path string, keep int) error {
	for n := keep; n > 0; n-- {
		from := path
		if n > 1 {
			from = keptPath(path, n-1)
		}
		if err := os.Rename(from, keptPath(path, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("rotate %s: %w", path, err)
		}
	}
	return nil
}

// keptPath returns the path of a log's n-th rotated file; the newest is 1.
func keptPath(path string, n int) string { return fmt.Sprintf("%s.kept.%d", path, n) }
