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
	"strconv"
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
	// maxForeign bounds the names that something else has.
	maxForeign = 100
	// maxNumber is the last one: a segment each millisecond for 31 years.
	maxNumber = 1_000_000_000_000
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
	r := &Ring{dir: dir, limit: max(size, MinSize), spare: spare}
	if err := r.hold(); err != nil {
		return nil, err
	}
	names, err := Segments(dir)
	if err == nil {
		if n := len(names); n > 0 {
			r.number = numberOf(filepath.Base(names[n-1]))
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

// hold makes the folder, and keeps other processes from recording there.
func (r *Ring) hold() error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(r.dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return fmt.Errorf("%s: another process records here: %w", r.dir, err)
	}
	r.lock = lock
	return nil
}

// isGone reports whether somebody has deleted a file that is open.
func isGone(file *os.File) bool {
	info, err := file.Stat()
	if err != nil {
		return true
	}
	st, is := info.Sys().(*syscall.Stat_t)
	return is && st.Nlink == 0
}

// Segments returns the segments in a folder, the oldest first. What has the name of one and is no file is none: nothing
// could delete a folder, and reading a pipe has no end.
func Segments(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.Type().IsRegular() && IsSegment(e.Name()) {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	slices.SortFunc(out, func(a, b string) int { return numberOf(filepath.Base(a)) - numberOf(filepath.Base(b)) })
	return out, nil
}

// IsSegment reports whether a file has the name of a segment.
func IsSegment(file string) bool { return numberOf(file) > 0 }

// numberOf returns the number of a segment by its name, 0 if it is none.
func numberOf(file string) int {
	digits, is := strings.CutSuffix(file, suffix)
	if n, err := strconv.Atoi(digits); is && err == nil && n > 0 && n <= maxNumber && file == name(n) {
		return n
	}
	return 0
}

func name(number int) string { return fmt.Sprintf("%09d%s", number, suffix) }

// Append appends lines to the segment. They are readable by others at once, and on the disk when the kernel writes
// them: a recording is worth no wait for a disk.
func (r *Ring) Append(lines []byte) (full bool, err error) {
	if r.file == nil {
		return false, errors.New("no segment is open")
	}
	if isGone(r.file) {
		return false, fmt.Errorf("%s: somebody has deleted it", r.file.Name())
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
	if isGone(r.lock) { // with its folder, by somebody who wants room, or a new beginning
		_ = r.lock.Close()
		if err := r.hold(); err != nil {
			return err
		}
	}
	if err := r.sweep(); err != nil {
		return err
	}
	file, err := r.create()
	if err != nil {
		return err
	}
	r.file, r.size, r.good = file, 0, false
	r.zip, err = gzip.NewWriterLevel(counter{r}, gzip.BestSpeed)
	return err
}

// create creates the file of the next number. Something else may have its name.
func (r *Ring) create() (file *os.File, err error) {
	for range maxForeign {
		r.number++
		file, err = os.OpenFile(filepath.Join(r.dir, name(r.number)),
			os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return file, err
}

// end ends the segment, as well as it can: what was flushed is readable without its end.
func (r *Ring) end() {
	if r.file == nil {
		return
	}
	_ = r.zip.Close()
	gone := isGone(r.file) // its name may be another's
	_ = r.file.Close()
	if !r.good && !gone { // a disk that is full for hours must not cost the segments before
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
