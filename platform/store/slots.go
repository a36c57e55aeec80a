package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Slots are small named values that are written often. Each has two files, PREFIX-NAME.0 and .1: a write overwrites the
// obsolete one in place, with a number and a checksum, and syncs it; the valid one with the higher number counts
// (docs/architecture.md, law 13; docs/adr/0021). So writing an existing value costs one sync, and neither a new file
// nor a sync of the folder. A power failure during a Write leaves the old or the new value; an error leaves the old
// one, unless the disk refused even to invalidate the failed write.
//
// A slot without these files may be one file, PREFIX-NAME, of an earlier version: it is read, and removed by the next
// Write. Slots is safe for concurrent use. A folder belongs to one process (NodeID's journal holds its lock); each
// write detects earlier writes by another process, but not concurrent ones.
type Slots struct {
	prefix string
	disk   disk
	mu     sync.Mutex
	slots  map[string]*slot
}

// NewSlots returns the slots whose files begin with the path prefix and a dash. The folder must exist before the first
// write.
func NewSlots(prefix string) *Slots {
	return &Slots{prefix: prefix, disk: theDisk, slots: map[string]*slot{}}
}

func (s *Slots) slot(name string) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.slots[name]
	if at == nil {
		at = &slot{path: s.prefix + "-" + name, disk: &s.disk}
		s.slots[name] = at
	}
	return at
}

// Read returns a value, or an error that wraps fs.ErrNotExist. It writes nothing.
func (s *Slots) Read(name string) ([]byte, error) { return s.slot(name).read() }

// Write replaces a value: a power failure leaves the old or the new one.
func (s *Slots) Write(name string, value []byte) error {
	return s.slot(name).put(change{value: value, wait: true})
}

// WriteSpare replaces a value without waiting for the disk: a power failure soon after may leave the old one, the new
// one or an unreadable one.
func (s *Slots) WriteSpare(name string, value []byte) error {
	return s.slot(name).put(change{value: value})
}

// Remove removes a value without waiting for the disk: a power failure before the next Write has returned, or an error
// of that Write, may bring it back. A missing value is no error.
func (s *Slots) Remove(name string) error { return s.slot(name).put(change{gone: true}) }

// change is one change of a slot. wait: until it is on disk.
type change struct {
	value      []byte
	gone, wait bool
}

// slot is one value.
type slot struct {
	path string
	disk *disk

	mu      sync.Mutex
	known   bool    // halves and old are as read or written
	halves  [2]half // without their values
	settled [2]bool // on disk, with its name
	loose   [2]bool // emptied, possibly not on disk yet
	failed  [2]bool // its last write failed: it doesn't count, whatever is read
	old     bool    // a file of an earlier version exists
}

func (s *slot) half(i int) string { return fmt.Sprintf("%s.%d", s.path, i) }

func (s *slot) open(flag int) (files [2]*os.File, err error) {
	for i := range files {
		f, fault := openHalf(s.half(i), flag)
		files[i], err = f, errors.Join(err, fault)
	}
	return files, err
}

func closeAll(files [2]*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // the valid value was synced
		}
	}
}

func (s *slot) read() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	files, err := s.open(os.O_RDONLY)
	defer closeAll(files)
	halves := s.readHalves(files)
	newest := newest(halves)
	switch {
	case newest >= 0 && halves[newest].gone:
		return nil, fmt.Errorf("read %s: %w", s.path, fs.ErrNotExist)
	case newest >= 0:
		return halves[newest].value, nil
	case err != nil:
		return nil, err
	case s.old || halves[0].size < 0 && halves[1].size < 0:
		return os.ReadFile(s.path)
	}
	for i, h := range halves {
		if h.fault != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", s.half(i), h.fault))
		}
	}
	return nil, fmt.Errorf("read %s: both of its files are damaged: %w", s.path, err)
}

// readHalves reads the files. Data written by another process may not be on disk yet.
func (s *slot) readHalves(files [2]*os.File) (halves [2]half) {
	for i, f := range files {
		halves[i] = readHalf(f)
		if s.failed[i] {
			halves[i].n, halves[i].fault = 0, errors.New("the last write to it failed")
		}
	}
	for i := range halves {
		same := halves[i].isWhole() && halves[i].head == s.halves[i].head
		s.settled[i], s.loose[i] = s.settled[i] && same, s.loose[i] && same
	}
	_, err := os.Lstat(s.path)
	s.known, s.halves, s.old = true, halves, err == nil
	for i := range s.halves {
		s.halves[i].value = nil
	}
	return halves
}

func newest(halves [2]half) int {
	switch {
	case !halves[0].isWhole() && !halves[1].isWhole():
		return -1
	case halves[1].n > halves[0].n:
		return 1
	}
	return 0
}

func (s *slot) put(c change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	files, err := s.open(os.O_RDWR)
	defer closeAll(files)
	if err != nil {
		return err
	}
	if !s.known || !s.halves[0].isUnchanged(files[0]) || !s.halves[1].isUnchanged(files[1]) {
		s.readHalves(files)
	}
	now := newest(s.halves)
	switch {
	case c.gone && now >= 0 && s.halves[now].gone, c.gone && files == [2]*os.File{}:
		return s.forget()
	case s.old:
		c.wait = true // its old value is about to be lost
	}
	to, err := s.target(c, now, files)
	if err != nil {
		return err
	}
	n := uint64(1)
	if now >= 0 {
		n += s.halves[now].n
	}
	text := make([]byte, 0, roundUpPages(halfHead+len(c.value)))
	if err := s.write(to, files[to], c, appendHalf(text, n, c.value, c.gone)); err != nil {
		s.known = false
		return err
	}
	return s.forget()
}

// forget removes the file of an earlier version.
func (s *slot) forget() error {
	if !s.old {
		return nil
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.old = false
	return nil
}

// target returns the half to write: never the last one that is on disk, unless the write is spare.
func (s *slot) target(c change, now int, files [2]*os.File) (int, error) {
	switch {
	case now < 0:
		return 0, nil
	case !c.wait && !c.gone, s.settled[now]:
		return 1 - now, nil
	case s.loose[now] && s.halves[1-now].isWhole() && s.settled[1-now]:
		return now, nil
	}
	if err := s.rewrite(now, files[now]); err != nil {
		return 0, fmt.Errorf("sync %s: %w", s.half(now), err)
	}
	return 1 - now, nil
}

// rewrite syncs what another process or a spare write left, by writing it again completely: a failed sync is not
// repeated by the next one.
func (s *slot) rewrite(i int, f *os.File) error {
	text := make([]byte, s.halves[i].size)
	if _, err := f.ReadAt(text, 0); err != nil {
		return err
	}
	if err := s.disk.overwrite(f, text); err != nil {
		return err
	}
	err := errors.Join(s.disk.datasync(f), s.disk.syncDir(filepath.Dir(s.path)))
	s.settled[i] = err == nil
	return err
}

// write makes text the content of a half: in place if the file exists and the other half is whole, otherwise by
// replacement.
func (s *slot) write(i int, f *os.File, c change, text []byte) error {
	var err error
	size := pages(len(text))
	inPlace := f != nil && s.halves[1-i].isWhole()
	if !inPlace || int64(size) > s.halves[i].size {
		size = roundUpPages(len(text)) // room for growth
	}
	text = append(text, make([]byte, size-len(text))...)
	if inPlace {
		err = s.overwrite(i, f, text, c.wait)
		size = max(size, int(s.halves[i].size))
	} else {
		d := *s.disk
		if !c.wait && !c.gone {
			d.sync = func(*os.File) error { return nil }
		}
		_, err = d.replace(s.half(i), text, 0o600)
	}
	s.settled[i] = err == nil && (c.wait || c.gone && !inPlace)
	s.loose[i] = err == nil && c.gone && !s.settled[i]
	if err != nil {
		return err
	}
	s.failed[i] = false
	s.halves[i] = parseHalf(text)
	s.halves[i].value, s.halves[i].size = nil, int64(size)
	return nil
}

// overwrite writes a half in place. After a failure it invalidates the half, so that it doesn't count after a restart
// either: its data may not be on disk.
func (s *slot) overwrite(i int, f *os.File, text []byte, wait bool) error {
	err := s.disk.overwrite(f, text)
	if err == nil && wait {
		err = s.disk.datasync(f)
	}
	if err != nil {
		s.failed[i] = true
		_ = s.disk.overwrite(f, make([]byte, halfHead))
		return fmt.Errorf("write %s: %w", s.half(i), err)
	}
	return nil
}
