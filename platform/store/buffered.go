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

// The waits between two tries to write what the disk refused: doubled each time.
const (
	firstTry = time.Second
	lastTry  = 10 * time.Second
)

// Buffered is the journal of a node that goes on without its disk: a change that the disk
// refuses is kept in memory and written once the disk takes it, and until then Health says
// so. Numbers that must never repeat don't, even so (Boot, Floor). A journal that is damaged
// is set aside, and what is whole of it is read. It is safe for concurrent use.
//
// What it never does is to end the process: that is the one thing that a node in the field
// can't come back from.
type Buffered struct {
	o       BufferedOptions
	dir     string
	marks   *Slots
	reserve reserve
	counted uint64 // the number of this start, as it is written
	boot    uint64 // the same, or one that no other start has where that could not be written
	floor   uint64
	node    uuid.UUID // as the mark has it
	partial bool      // the journal may lack something that it had, or was to have

	mu      sync.RWMutex                 // for writing: while the disk is behind, or is tried
	journal *Journal                     // as far as the disk has come
	damaged bool                         // the log is to be set aside before a new one takes its name
	behind  error                        // why the disk does not have everything; nil where it has
	said    bool                         // that it is behind was noted and told
	unsaved map[string]map[string]record // by topic and key: what it does not have
	later   []func() error               // other writes that it refused
	tries   int
	timer   *time.Timer
	closed  bool

	reported sync.Mutex // taken last
	health   Health
	watch    []func(Health)
}

// BufferedOptions are those of OpenBuffered.
type BufferedOptions struct {
	Strict bool   // a damaged journal is an error (*CorruptError), as is a disk that refuses to be written
	RunDir string // where it is noted, too, that the disk is behind; "" for nowhere
}

// Health says how the state folder fares.
type Health struct {
	Fault   string    // why changes are not on the disk; "" where all are
	Since   time.Time // of Fault
	Unsaved int       // how many changes are in memory only
	Tight   bool      // there is no room for the space that is reserved for writes on a full disk
	Notes   []string  // what this start found and had to do
}

// OpenBuffered opens the journal in a folder. Without Strict it fails only where another
// process holds the journal (ErrLocked): whatever else is wrong is in Health.
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

// open reads the journal, whatever there is of it, and says what is lost.
func (b *Buffered) open() (lost string) {
	j := b.journal
	_, statErr := os.Lstat(j.path)
	if _, err := os.Lstat(filepath.Join(b.dir, idName)); err == nil && errors.Is(statErr, fs.ErrNotExist) {
		m, _ := b.marked()
		m.Lost = true
		_ = b.marks.Write(markSlot, m.text()) // before there is a new journal
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

// Load returns the values of a topic by key, those in memory included.
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

// Put returns after the value is on disk or, where the disk refuses it, in memory. It is an
// error only of the value or of a closed journal.
func (b *Buffered) Put(topic, key string, value []byte) error {
	if err := checkSize(topic, key, value); err != nil {
		return err
	}
	return b.change(record{opPut, topic, key, slices.Clone(value)},
		func() error { return b.journal.Put(topic, key, value) })
}

// Delete is Put of an absence. An absent key is no error.
func (b *Buffered) Delete(topic, key string) error {
	return b.change(record{op: opDelete, topic: topic, key: key}, func() error { return b.journal.Delete(topic, key) })
}

func (b *Buffered) change(r record, write func() error) error {
	b.mu.RLock()
	if b.behind == nil {
		err := write()
		if noRoom(err) && b.reserve.release() {
			go b.retryLater() // to take it again
			err = write()
		}
		b.mu.RUnlock()
		if err == nil || b.o.Strict || errors.Is(err, os.ErrClosed) {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.fallBehind(err)
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

// The functions below are called with b.mu held.

func (b *Buffered) append(r record) {
	keys := b.unsaved[r.topic]
	if keys == nil {
		keys = map[string]record{}
		b.unsaved[r.topic] = keys
	}
	keys[r.key] = r
	b.setHealth(func(h *Health) { h.Unsaved = b.waiting() })
}

func (b *Buffered) waiting() int {
	n := len(b.later)
	for _, keys := range b.unsaved {
		n += len(keys)
	}
	return n
}

// fallBehind notes, where that can be noted at all, that the disk has not everything: a start
// that finds the note gives out no number that may have been given out before.
func (b *Buffered) fallBehind(err error) {
	b.behind = err
	if !b.said {
		b.said = true
		b.mark(true)
		b.setHealth(func(h *Health) { h.Since = time.Now() })
	}
	b.setHealth(func(h *Health) { h.Fault, h.Unsaved = err.Error(), b.waiting() })
	b.again()
}

func (b *Buffered) again() {
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

// retryLater has the reserve taken again once there is room.
func (b *Buffered) retryLater() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setHealth(func(h *Health) { h.Tight = true })
	b.again()
}

// catchUp brings to the disk what it refused, and takes the reserve again.
func (b *Buffered) catchUp() {
	if b.closed {
		return
	}
	if b.behind != nil || b.waiting() > 0 {
		err := b.writeAll()
		if noRoom(err) && b.reserve.release() {
			err = b.writeAll()
		}
		if err != nil {
			b.fallBehind(err)
			return
		}
		b.behind, b.said, b.tries, b.unsaved = nil, false, 0, map[string]map[string]record{}
		b.mark(false)
		b.setHealth(func(h *Health) {
			h.Fault, h.Since, h.Unsaved = "", time.Time{}, 0
			h.Notes = slices.DeleteFunc(slices.Clone(h.Notes), func(n string) bool { return n == endedBehind })
		})
	}
	tight := b.reserve.acquire() != nil
	if tight != b.Health().Tight {
		b.setHealth(func(h *Health) { h.Tight = tight })
	}
	if tight {
		b.again()
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
		b.unsaved = map[string]map[string]record{} // what follows may fail for hours: they are written once
	}
	for len(b.later) > 0 {
		if err := b.later[0](); err != nil {
			return err
		}
		b.later = b.later[1:]
	}
	return nil
}

// setAside keeps a damaged log under another name before a new one takes its own.
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

// note adds to what this start found.
func (b *Buffered) note(text string) {
	b.setHealth(func(h *Health) { h.Notes = append(slices.Clip(h.Notes), text) })
}

func (b *Buffered) setHealth(change func(*Health)) {
	b.reported.Lock()
	defer b.reported.Unlock()
	change(&b.health)
	for _, f := range b.watch {
		f(b.health)
	}
}

// Health is how the state folder fares now.
func (b *Buffered) Health() Health {
	b.reported.Lock()
	defer b.reported.Unlock()
	return b.health
}

// Watch tells Health, and each change of it, in order. f must not block, and not call b.
func (b *Buffered) Watch(f func(Health)) {
	b.reported.Lock()
	defer b.reported.Unlock()
	b.watch = append(b.watch, f)
	f(b.health)
}

// Stats are those of the log on the disk.
func (b *Buffered) Stats() Stats { return b.journal.Stats() }

// Spend gives the reserved space up for a write beside the journal that found none; it says
// whether there was some.
func (b *Buffered) Spend(err error) bool {
	if !noRoom(err) || !b.reserve.release() {
		return false
	}
	go b.retryLater()
	return true
}

// Close tries once more to write what the disk does not have, and ends the journal.
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
