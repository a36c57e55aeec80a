// Package tape owns the files of a recording: segments of compressed lines in a folder, of which the oldest are
// deleted, so that a recording takes a bounded part of the disk for ever, and leaves the last of it to others.
//
// It never looks into the lines, and never deletes a file that is no segment.
package tape

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"edgespan/platform/datadir"
)

const (
	suffix = ".tape.gz"
	// parts is how many segments a recording of the full size has at least: the part that is deleted at a time is one.
	parts = 16
	// maxSegment is the size of the largest one, in octets: a support archive takes whole segments.
	maxSegment = 4 << 20
	// maxSegments bounds the files: each start of the daemon begins one, however short.
	maxSegments = 1024
	// MinSize is the smallest size of a recording, in octets: a segment begins with the state of each core.
	MinSize = 4 << 20
	// MaxSize is the largest size.
	MaxSize = maxSegments / 2 * maxSegment
)

// Ring is a folder that one process writes. It is for one goroutine.
type Ring struct {
	dir    string
	limit  int64
	spare  uint64
	lock   *os.File
	number int
	file   *os.File
	zip    *gzip.Writer
	size   int64 // of file
	good   bool  // lines were written to file
}

// Open opens a folder for writing, and makes it if it is not there. Size is in octets of disk, at least MinSize, and
// spare how many octets of the disk are left to others: a disk that has less is a full one.
func Open(dir string, size int64, spare uint64) (*Ring, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("%s: another process records here: %w", dir, err)
	}
	r := &Ring{dir: dir, limit: max(size, MinSize), spare: spare, lock: lock}
	names, err := Segments(dir)
	if err == nil {
		if n := len(names); n > 0 {
			_, err = fmt.Sscanf(filepath.Base(names[n-1]), "%d", &r.number)
		}
	}
	if err == nil { // a disk that is full now is no reason to record nothing later
		err = r.next()
	}
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// Segments returns the segments in a folder, the oldest first.
func Segments(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if n := 0; strings.HasSuffix(e.Name(), suffix) {
			if _, err := fmt.Sscanf(e.Name(), "%d"+suffix, &n); err == nil && e.Name() == name(n) {
				out = append(out, filepath.Join(dir, e.Name()))
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

func name(number int) string { return fmt.Sprintf("%09d%s", number, suffix) }

// Append appends lines to the segment. They are readable by others at once, and on the disk when the kernel writes
// them: a recording is worth no wait for a disk.
func (r *Ring) Append(lines []byte) (full bool, err error) {
	if r.file == nil {
		return false, errors.New("no segment is open")
	}
	if err := datadir.Room(r.file, r.spare); err != nil {
		return false, err
	}
	if _, err = r.zip.Write(lines); err == nil {
		err = r.zip.Flush()
	}
	if err != nil {
		return false, err
	}
	r.good = true
	return r.size >= r.segment(), nil
}

// segment is the size of one segment.
func (r *Ring) segment() int64 { return min(r.limit/parts, maxSegment) }

// counter counts what the segment takes.
type counter struct{ r *Ring }

func (c counter) Write(b []byte) (int, error) {
	n, err := c.r.file.Write(b)
	c.r.size += int64(n)
	return n, err
}

// Next ends the segment, deletes the oldest ones, and begins another if the disk has room for it.
func (r *Ring) Next() error {
	if err := r.next(); err != nil {
		return err
	}
	if err := datadir.Room(r.file, r.spare); err != nil {
		r.end()
		return err
	}
	return nil
}

func (r *Ring) next() error {
	r.end()
	if err := r.sweep(); err != nil {
		return err
	}
	r.number++
	file, err := os.OpenFile(filepath.Join(r.dir, name(r.number)), os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_NOFOLLOW,
		0o600)
	if err != nil {
		return err
	}
	r.file, r.size, r.good = file, 0, false
	r.zip, err = gzip.NewWriterLevel(counter{r}, gzip.BestSpeed)
	return err
}

// end ends the segment, as well as it can: what was flushed is readable without its end.
func (r *Ring) end() {
	if r.file == nil {
		return
	}
	_ = r.zip.Close()
	_ = r.file.Close()
	if !r.good { // a disk that is full for hours must not cost the segments before
		_ = os.Remove(r.file.Name())
	}
	r.file, r.zip = nil, nil
}

// sweep deletes the oldest segments until there is room for another.
func (r *Ring) sweep() error {
	names, err := Segments(r.dir)
	if err != nil {
		return err
	}
	sizes := make([]int64, len(names))
	room := r.limit - r.segment()
	for i, name := range names {
		info, err := os.Lstat(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil {
			sizes[i] = info.Size()
		}
		room -= sizes[i]
	}
	for i := 0; i < len(names) && (room < 0 || len(names)-i >= maxSegments); i++ {
		if err := os.Remove(names[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		room += sizes[i]
	}
	return nil
}

// Close ends the segment and lets others record in the folder.
func (r *Ring) Close() error {
	r.end()
	return r.lock.Close()
}

// Read returns the lines of a segment, until the end or as far as they were written.
func Read(file io.Reader) (io.Reader, error) {
	in := bufio.NewReader(file)
	if magic, err := in.Peek(2); err == nil && (magic[0] != 0x1f || magic[1] != 0x8b) {
		return in, nil // uncompressed by somebody
	}
	return gzip.NewReader(in)
}
