package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"edgespan/platform/store"
)

// Tail is a file of lines that its writer keeps short: it appends lines without waiting for the disk, and replaces the
// whole file when that gets long. It leaves Spare bytes of its disk to others. It is safe for concurrent use.
type Tail struct {
	lines Lines
}

// NewTail returns the Tail of a path. limit is the length in bytes that the file never exceeds.
func NewTail(path string, limit int64, spare uint64) *Tail {
	return &Tail{Lines{Path: path, Limit: limit, Spare: spare}}
}

// Read returns the content of the file: the last bytes, if it is longer than its limit; none without a file.
func (t *Tail) Read() ([]byte, error) {
	f, err := os.Open(t.lines.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open lines: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	if info, err := f.Stat(); err == nil && info.Size() > t.lines.Limit {
		_, _ = f.Seek(-t.lines.Limit, io.SeekEnd) // else it reads the first bytes
	}
	text, err := io.ReadAll(io.LimitReader(f, t.lines.Limit))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.lines.Path, err)
	}
	return text, nil
}

// Append appends whole lines, and cuts off a last line without its end first. An error leaves the file without them, or
// after a failed write with a part.
func (t *Tail) Append(lines []byte) error {
	l := &t.lines
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return err
	}
	if l.size+int64(len(lines)) > l.Limit {
		return fmt.Errorf("write %s: longer than %d KiB", l.Path, l.Limit>>10)
	}
	if err := Room(l.file, l.Spare); err != nil {
		return err
	}
	return l.append(lines)
}

// Replace replaces the lines of the file. The file has the old or the new ones, whatever happens.
func (t *Tail) Replace(lines []byte) error {
	l := &t.lines
	l.mu.Lock()
	defer l.mu.Unlock()
	if int64(len(lines)) > l.Limit {
		return fmt.Errorf("write %s: longer than %d KiB", l.Path, l.Limit>>10)
	}
	if err := l.open(); err != nil {
		return err
	}
	if err := Room(l.file, l.Spare); err != nil {
		return err
	}
	l.close()
	return store.WriteFile(l.Path, lines, 0o600)
}
