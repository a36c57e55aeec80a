package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// The waits between attempts to write changes the disk refused: doubled each time.
const (
	firstTry = time.Second
	lastTry  = 10 * time.Second
)

// Buffered is the journal of a node that continues without its disk: it keeps a change that the disk refuses in memory
// and writes it once the disk accepts it; until then Health reports it. Numbers that must never repeat don't repeat
// even then (Boot, Floor). A damaged journal is set aside, and its intact parts are read. Buffered is safe for
// concurrent use.
//
// It never ends the process: a node in the field can't recover from that.
type Buffered struct {
	o       BufferedOptions
	dir     string
	marks   *Slots
	reserve reserve
	counted uint64 // the number of this start, as written
	boot    uint64 // the same, or a unique one if that could not be written
	floor   uint64
	node    uuid.UUID // node ID from the mark
	partial bool      // the journal may lack changes

	mu      sync.RWMutex                 // write-locked while the disk is behind or retried
	journal *Journal                     // the state of the disk
	damaged bool                         // set the log aside before a new one takes its name
	behind  error                        // why the disk lacks changes; nil if it has all
	said    bool                         // the fault was noted and reported
	unsaved map[string]map[string]record // changes missing on disk, by topic and key
	later   []func() error               // other refused writes
	tries   int
	timer   *time.Timer
	closed  bool

	reported sync.Mutex // acquired last
	health   DiskHealth
	watch    []func(DiskHealth)
}

// BufferedOptions are the options of OpenBuffered.
type BufferedOptions struct {
	Strict bool   // a damaged journal (*CorruptError) or a disk that refuses writes is an error
	RunDir string // second place for the note that the disk is behind; "" for none
}

// DiskHealth describes the state folder.
type DiskHealth struct {
	Fault   string    // why changes are not on the disk; "" if all are
	Since   time.Time // start of Fault
	Unsaved int       // number of changes in memory only
	Tight   bool      // no room for the space reserved for writes on a full disk
	Notes   []string  // findings and actions of this start
}

// OpenBuffered opens the journal in a folder. Without Strict it fails only if another process holds the journal
// (ErrLocked): every other fault is in Health.
func OpenBuffered(dir string, o BufferedOptions) (*Buffered, error) {
	b := &Buffered{
		o: o, dir: dir, marks: NewSlots(filepath.Join(dir, journalName)), reserve: reserve{filepath.Join(dir, reserveName)},
		unsaved: map[string]map[string]record{},
	}
	if o.Strict {
		j, err := OpenJournal(dir)
		if err != nil {
			return nil, err
		}
		b.journal = j
		return b, b.count("")
	}
	makeErr := theDisk.makeDir(dir, 0o755)
	lock, err := acquireAnyLock(dir)
	if err != nil {
		return nil, err
	}
	b.journal = newJournal(dir, lock)
	lost := b.open()
	if makeErr != nil && b.behind == nil {
		b.behind = makeErr
	}
	if b.behind != nil {
		b.journal.broken = b.behind
	}
	if err := b.count(lost); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// open reads the journal as far as possible and returns a description of the lost part.
func (b *Buffered) open() (lost string) {
	j := b.journal
	_, statErr := os.Lstat(j.path)
	if _, err := os.Lstat(filepath.Join(b.dir, idName)); err == nil && errors.Is(statErr, fs.ErrNotExist) {
		m, _ := b.readMark()
		m.Lost = true
		_ = b.marks.Write(markSlot, m.text()) // before a new journal exists
		lost = "journal missing although the node has an ID"
	}
	err := j.open()
	var corrupt *CorruptError
	switch {
	case errors.As(err, &corrupt):
		log, readErr := os.ReadFile(j.path)
		records, gaps := salvage(log)
		for _, r := range records {
			j.apply(r)
		}
		b.behind, b.damaged = errors.Join(err, readErr), true
		return fmt.Sprintf("journal damaged (offset %d: %s): read %d records around %d gaps", corrupt.Offset,
			corrupt.What, len(records), gaps)
	case err != nil:
		b.behind = err
		if statErr == nil && len(j.live) == 0 {
			b.damaged = true
			return "cannot read the journal: " + err.Error()
		}
	}
	return lost
}

// Load returns the values of a topic by key, including those in memory.
func (b *Buffered) Load(topic string) (map[string][]byte, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	values, err := b.journal.Load(topic)
	if err != nil {
		return nil, err
	}
	for key, r := range b.unsaved[topic] {
		if r.op == opDelete {
			delete(values, key)
		} else {
			values[key] = slices.Clone(r.value)
		}
	}
	return values, nil
}

// Put returns once the value is on disk or, if the disk refuses it, in memory. An error means an invalid value or a
// closed journal.
func (b *Buffered) Put(topic, key string, value []byte) error {
	if err := checkSize(topic, key, value); err != nil {
		return err
	}
	return b.change(record{opPut, topic, key, slices.Clone(value)},
		func() error { return b.journal.Put(topic, key, value) })
}

// Delete removes a key as Put sets one. An absent key is no error.
func (b *Buffered) Delete(topic, key string) error {
	return b.change(record{op: opDelete, topic: topic, key: key}, func() error { return b.journal.Delete(topic, key) })
}

func (b *Buffered) change(r record, write func() error) error {
	b.mu.RLock()
	if b.behind == nil {
		err := write()
		if isDiskFull(err) && b.reserve.release() {
			go b.retryLater() // to acquire it again
			err = write()
		}
		b.mu.RUnlock()
		if err == nil || b.o.Strict || errors.Is(err, os.ErrClosed) {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.noteBehind(err)
		b.append(r)
		return nil
	}
	b.mu.RUnlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("change the journal: %w", os.ErrClosed)
	}
	b.save(r)
	return nil
}

// Call the functions below with b.mu held.

func (b *Buffered) append(r record) {
	keys := b.unsaved[r.topic]
	if keys == nil {
		keys = map[string]record{}
		b.unsaved[r.topic] = keys
	}
	keys[r.key] = r
	b.setHealth(func(h *DiskHealth) { h.Unsaved = b.waiting() })
}

func (b *Buffered) waiting() int {
	n := len(b.later)
	for _, keys := range b.unsaved {
		n += len(keys)
	}
	return n
}

// noteBehind notes, wherever it can, that the disk lacks changes: a start that finds the note never reuses a number
// that may have been issued.
func (b *Buffered) noteBehind(err error) {
	b.behind = err
	if !b.said {
		b.said = true
		b.mark(true)
		b.setHealth(func(h *DiskHealth) { h.Since = time.Now() })
	}
	b.setHealth(func(h *DiskHealth) { h.Fault, h.Unsaved = err.Error(), b.waiting() })
	b.retry()
}

func (b *Buffered) retry() {
	if b.timer != nil || b.closed {
		return
	}
	wait := min(firstTry<<min(b.tries, 8), lastTry)
	b.tries++
	b.timer = time.AfterFunc(wait, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.timer = nil
		b.catchUp()
	})
}

// retryLater schedules another attempt to acquire the reserve.
func (b *Buffered) retryLater() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setHealth(func(h *DiskHealth) { h.Tight = true })
	b.retry()
}

// catchUp writes the refused changes to the disk, and acquires the reserve again.
func (b *Buffered) catchUp() {
	if b.closed {
		return
	}
	if b.behind != nil || b.waiting() > 0 {
		err := b.writeAll()
		if isDiskFull(err) && b.reserve.release() {
			err = b.writeAll()
		}
		if err != nil {
			b.noteBehind(err)
			return
		}
		b.behind, b.said, b.tries, b.unsaved = nil, false, 0, map[string]map[string]record{}
		b.mark(false)
		b.setHealth(func(h *DiskHealth) {
			h.Fault, h.Since, h.Unsaved = "", time.Time{}, 0
			h.Notes = slices.DeleteFunc(slices.Clone(h.Notes), func(n string) bool { return n == endedBehind })
		})
	}
	tight := b.reserve.acquire() != nil
	if tight != b.Health().Tight {
		b.setHealth(func(h *DiskHealth) { h.Tight = tight })
	}
	if tight {
		b.retry()
	}
}

func (b *Buffered) writeAll() error {
	if err := b.setAside(); err != nil {
		return err
	}
	if b.journal.isBroken() {
		if err := theDisk.makeDir(b.dir, 0o755); err != nil {
			return err
		}
		if err := b.journal.renew(); err != nil {
			return err
		}
	}
	var records []record
	for _, topic := range slices.Sorted(maps.Keys(b.unsaved)) {
		for _, key := range slices.Sorted(maps.Keys(b.unsaved[topic])) {
			records = append(records, b.unsaved[topic][key])
		}
	}
	if len(records) > 0 {
		if err := b.journal.putAll(records); err != nil {
			return err
		}
		b.unsaved = map[string]map[string]record{} // the rest may fail for hours: write them once
	}
	for len(b.later) > 0 {
		if err := b.later[0](); err != nil {
			return err
		}
		b.later = b.later[1:]
	}
	return nil
}

// setAside renames a damaged log before a new one takes its name.
func (b *Buffered) setAside() error {
	if !b.damaged {
		return nil
	}
	name, err := quarantine(b.journal.path, time.Now().Unix())
	if err != nil {
		return err
	}
	b.damaged = false
	b.note("damaged journal kept as " + name)
	return nil
}

// note adds a finding of this start.
func (b *Buffered) note(text string) {
	b.setHealth(func(h *DiskHealth) { h.Notes = append(slices.Clip(h.Notes), text) })
}

func (b *Buffered) setHealth(change func(*DiskHealth)) {
	b.reported.Lock()
	defer b.reported.Unlock()
	change(&b.health)
	for _, f := range b.watch {
		f(b.health)
	}
}

// Health returns the state of the state folder.
func (b *Buffered) Health() DiskHealth {
	b.reported.Lock()
	defer b.reported.Unlock()
	return b.health
}

// Watch calls f with Health now and on each change, in order. f must not block and must not call b.
func (b *Buffered) Watch(f func(DiskHealth)) {
	b.reported.Lock()
	defer b.reported.Unlock()
	b.watch = append(b.watch, f)
	f(b.health)
}

// Stats returns the stats of the log on disk.
func (b *Buffered) Stats() Stats { return b.journal.Stats() }

// ReleaseReserve releases the reserved space for another write that found the disk full, and reports whether there was
// any.
func (b *Buffered) ReleaseReserve(err error) bool {
	if !isDiskFull(err) || !b.reserve.release() {
		return false
	}
	go b.retryLater()
	return true
}

// Close tries once more to write the missing changes, and closes the journal.
func (b *Buffered) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	if b.behind != nil {
		b.catchUp()
	}
	b.closed = true
	if b.timer != nil {
		b.timer.Stop()
	}
	return b.journal.Close()
}
