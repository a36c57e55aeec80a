package datadir

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// longestLine bounds a line of an audit log, in bytes.
const longestLine = 1 << 20

// ReadAudit reads the lines of several audit logs in chronological order, including rotated files: those of Rotation,
// and those of logrotate that are not compressed. The logs may be written and rotated meanwhile.
func ReadAudit(paths []string, each func(at time.Time, line []byte) error) (err error) {
	var all []*auditReader
	defer func() {
		for _, r := range all {
			err = errors.Join(err, r.close())
		}
	}()
	for _, path := range paths {
		numbered, kept, err := olderFiles(path)
		if err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		for _, list := range [][]string{append([]string{path}, kept...), numbered} {
			r, err := openReader(list)
			all = append(all, r)
			if err != nil {
				return fmt.Errorf("read audit log: %w", err)
			}
		}
	}
	for {
		var next *auditReader
		for _, r := range all {
			if r.line != nil && (next == nil || r.at.Before(next.at)) {
				next = r
			}
		}
		if next == nil {
			return nil
		}
		if err := each(next.at, next.line); err != nil {
			return err
		}
		if err := next.advance(); err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
	}
}

// olderFiles returns the rotated files, the newest first: those of logrotate and those of Rotation.
func olderFiles(path string) (numbered, kept []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, nil, err
	}
	for prefix, list := range map[string]*[]string{path + ".": &numbered, path + ".kept.": &kept} {
		var numbers []int
		for _, e := range entries {
			rest, ok := strings.CutPrefix(filepath.Join(filepath.Dir(path), e.Name()), prefix)
			if n, err := strconv.Atoi(rest); ok && err == nil && n >= 0 {
				numbers = append(numbers, n)
			}
		}
		slices.Sort(numbers)
		for _, n := range numbers {
			*list = append(*list, prefix+strconv.Itoa(n))
		}
	}
	return numbered, kept, nil
}

// auditReader reads the files of one log, the oldest first.
type auditReader struct {
	files []*os.File // the newest first
	lines *bufio.Scanner

	line []byte // the next one; nil at the end
	at   time.Time
}

// openReader opens files, the newest first. It skips a file that a rotation has renamed meanwhile and that is open
// already.
func openReader(paths []string) (*auditReader, error) {
	r := &auditReader{}
	var last fs.FileInfo
	for _, path := range paths {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return r, err
		}
		info, err := f.Stat()
		if err != nil || last != nil && os.SameFile(last, info) {
			if err = errors.Join(err, f.Close()); err != nil {
				return r, err
			}
			continue
		}
		last, r.files = info, append(r.files, f)
	}
	return r, r.advance()
}

// advance reads the next line. A truncated line has the time of the line before it.
func (r *auditReader) advance() error {
	for {
		for r.lines != nil && r.lines.Scan() {
			if len(r.lines.Bytes()) == 0 {
				continue
			}
			r.line = r.lines.Bytes()
			var e struct{ Time time.Time }
			if json.Unmarshal(r.line, &e) == nil && !e.Time.IsZero() {
				r.at = e.Time
			}
			return nil
		}
		if r.lines != nil {
			if err := r.lines.Err(); err != nil {
				return fmt.Errorf("%s: %w", r.files[len(r.files)-1].Name(), err)
			}
			if err := r.drop(); err != nil {
				return err
			}
		}
		if len(r.files) == 0 {
			r.line, r.lines = nil, nil
			return nil
		}
		r.lines = bufio.NewScanner(io.Reader(r.files[len(r.files)-1]))
		r.lines.Buffer(nil, longestLine)
	}
}

// drop closes the oldest file.
func (r *auditReader) drop() error {
	last := len(r.files) - 1
	err := r.files[last].Close()
	r.files = r.files[:last]
	return err
}

func (r *auditReader) close() error {
	var faults []error
	for len(r.files) > 0 {
		faults = append(faults, r.drop())
	}
	return errors.Join(faults...)
}
