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

// Rotation bounds the bytes of a log: one that has reached its limit becomes PATH.kept.1, that of
// before PATH.kept.2, and the oldest goes. PATH.1 and the like are left to logrotate, which would
// overwrite them, and PATH.2 by PATH.1. It may be used from several goroutines.
type Rotation struct {
	Path  string
	Limit int64 // of one file; 0: it grows without a bound
	Keep  int   // files beside the newest

	mu     sync.Mutex
	looked time.Time
}

// rotationCheckEvery is how often the size of a log is asked for.
const rotationCheckEvery = time.Second

// Due moves the files if it is time, and says that the log has to be opened anew.
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
		return true, nil // it was moved, and could not be opened anew then
	case err != nil:
		return false, err
	case info.Size() < r.Limit:
		return false, nil
	}
	for n := r.Keep; n > 0; n-- {
		from := r.Path
		if n > 1 {
			from = keptPath(r.Path, n-1)
		}
		if err := os.Rename(from, keptPath(r.Path, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("rotate %s: %w", r.Path, err)
		}
	}
	return true, syncFolder(filepath.Dir(r.Path))
}

// keptPath is where a log's n-th file of before is, the newest of them 1.
func keptPath(path string, n int) string { return fmt.Sprintf("%s.kept.%d", path, n) }
