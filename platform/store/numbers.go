package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Where Buffered stores numbers that must never repeat, in addition to the boot number.
const (
	floorKey = "floor"   // in bootTopic
	idTopic  = "node-id" // a second copy of the file
	idKey    = "node"
)

// If no number can be written, numbers are chosen at random from ranges that written ones never reach: a boot number
// has 32 bits (the upper half of applySeq's epoch); a version is below 2^53, which every JSON reader preserves.
const (
	floorStep     = 1 << 32 // more than a daemon can count in one run
	volatileFloor = 1 << 52
	volatileBoot  = 1 << 31
	unknownFloor  = 1 << 51 // these two are written after all written numbers are lost
	unknownBoot   = 1 << 30
)

// mark holds the facts that must be known even if the journal is lost.
type mark struct {
	Boot  uint64    `json:"boot"`
	Floor uint64    `json:"floor"`
	Lost  bool      `json:"lost"` // the journal lacks changes
	Node  uuid.UUID `json:"node"` // uuid.Nil until it is known
}

// endedBehind is no damage: the note is removed when the disk has all changes.
const endedBehind = "the last run ended while changes were not on the disk"

const (
	markSlot = "mark"
	runMark  = "not-journalled"
)

func (m mark) text() []byte {
	return fmt.Appendf(nil, `{"boot":%d,"floor":%d,"lost":%t,"node":%q}`, m.Boot, m.Floor, m.Lost, m.Node)
}

func (b *Buffered) readMark() (m mark, err error) {
	text, err := b.marks.Read(markSlot)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// mark writes the mark: normally in place, which needs no room on a full disk. If even that fails, a file in the run
// folder notes the loss; a reboot removes both that file and everything that could still refer to a lost number.
func (b *Buffered) mark(lost bool) bool {
	err := b.marks.Write(markSlot, mark{b.counted, b.floor, lost, b.node}.text())
	if b.o.RunDir != "" {
		path := filepath.Join(b.o.RunDir, runMark)
		if lost && err != nil {
			_ = os.WriteFile(path, nil, 0o600)
		} else if !lost {
			_ = os.Remove(path)
		}
	}
	return err == nil
}

// count acquires this start's boot number and, if numbers may be lost, a new floor.
func (b *Buffered) count(lost string) error {
	last, err := b.number(bootKey)
	if err != nil && b.o.Strict {
		return err
	} else if err != nil {
		lost = err.Error()
	}
	m, markErr := b.readMark()
	b.node = m.Node
	if b.o.RunDir != "" {
		if _, err := os.Lstat(filepath.Join(b.o.RunDir, runMark)); err == nil {
			m.Lost = true
		}
	}
	if m.Lost && lost == "" {
		lost = endedBehind
	}
	if b.floor, err = b.number(floorKey); err != nil {
		lost = err.Error()
	}
	if lost != "" && markErr != nil {
		m.Boot, m.Floor = unknownBoot+rand.Uint64N(unknownBoot/2), unknownFloor+rand.Uint64N(1<<18)*floorStep
	}
	b.floor = max(b.floor, m.Floor)
	if b.partial = lost != ""; b.partial {
		b.note(lost)
	}
	b.start(max(last, m.Boot)+1, lost != "")
	if b.o.Strict {
		return b.behind
	}
	return nil
}

// start stores this start's numbers in an order that can't repeat any: first the floor, then the removal of the note
// that required it; the boot number before anything is counted with it.
func (b *Buffered) start(boot uint64, lost bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.counted, b.boot = boot, boot; lost {
		b.floor += floorStep
	}
	marked := b.mark(b.behind != nil || lost)
	if lost {
		r := record{opPut, bootTopic, floorKey, strconv.AppendUint(nil, b.floor, 10)}
		if b.journal.isBroken() {
			b.journal.apply(r) // so that no new log is ever without it
		}
		b.save(r)
	}
	b.save(record{opPut, bootTopic, bootKey, strconv.AppendUint(nil, b.boot, 10)})
	b.catchUp()
	switch {
	case b.behind == nil && lost:
		b.mark(false)
	case b.behind != nil && !marked: // no number of this start is stored anywhere
		b.partial = true // the previous start may have had such a disk, too
		b.boot = volatileBoot + rand.Uint64N(volatileBoot)
		b.floor = volatileFloor + rand.Uint64N(1<<19)*floorStep
		b.append(record{opPut, bootTopic, floorKey, strconv.AppendUint(nil, b.floor, 10)})
	}
}

// save is change with b.mu held.
func (b *Buffered) save(r record) {
	if b.behind == nil {
		if err := b.journal.putAll([]record{r}); err != nil {
			b.noteBehind(err)
		}
	}
	if b.behind != nil {
		b.append(r)
	}
}

func (b *Buffered) number(key string) (uint64, error) {
	values, err := b.journal.Load(bootTopic)
	if err != nil {
		return 0, err
	}
	text, found := values[key]
	if !found {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the %s in the journal is no number: %w", key, err)
	}
	return n, nil
}

// Boot returns the number of this start: one more than the last, on disk before it is used, or from a range of its own
// if the disk refuses it. It prefixes applySeq, so that no status ever repeats (docs/architecture.md, laws 3 and 9).
func (b *Buffered) Boot() uint64 { return b.boot }

// Floor returns a number above every one that may have been issued without being written: counters that continue from
// the journal start at it if it is higher.
func (b *Buffered) Floor() uint64 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.floor
}

// MayLackChanges reports whether the journal may lack changes.
func (b *Buffered) MayLackChanges() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.partial
}

// NoteLost notes that a part of the journal is unusable, and raises the floor.
func (b *Buffered) NoteLost(what string) {
	b.note(what)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.partial = true
	b.floor += floorStep
	b.mark(b.behind != nil)
	b.save(record{opPut, bootTopic, floorKey, strconv.AppendUint(nil, b.floor, 10)})
}

// NodeID returns the node's ID. It sets an unusable file aside and then uses bound, the ID in the node's certificate
// (uuid.Nil for none), or a copy of the ID in the journal or in the mark. Only a node without any of these gets a new
// ID.
func (b *Buffered) NodeID(bound uuid.UUID) (uuid.UUID, error) {
	id, err := readNodeID(b.dir)
	if err != nil && b.o.Strict && !errors.Is(err, fs.ErrNotExist) {
		return uuid.Nil, err
	}
	values, loadErr := b.Load(idTopic)
	if loadErr != nil {
		return uuid.Nil, loadErr
	}
	second, copyErr := parseNodeID(values[idKey])
	if err != nil {
		why := err.Error()
		switch {
		case bound != uuid.Nil:
			id, why = bound, why+": using the ID of its certificate"
		case copyErr == nil:
			id, why = second, why+": using the ID in the journal"
		case b.node != uuid.Nil:
			id, why = b.node, why+": using the copy next to the journal"
		default:
			if id, loadErr = uuid.NewRandom(); loadErr != nil {
				return uuid.Nil, fmt.Errorf("make node id: %w", loadErr)
			}
			why += ": unknown, created a new one"
		}
		// otherwise it is the first start
		if bound != uuid.Nil || copyErr == nil || b.node != uuid.Nil || !errors.Is(err, fs.ErrNotExist) {
			b.note(why)
		}
		b.replaceFile(filepath.Join(b.dir, idName), []byte(id.String()+"\n"), 0o644)
	}
	b.mu.Lock()
	if b.node != id {
		b.node = id
		b.mark(b.said)
	}
	b.mu.Unlock()
	if id != second {
		return id, b.Put(idTopic, idKey, []byte(id.String()))
	}
	return id, nil
}

// replaceFile replaces a file, now or once the disk accepts it. The previous file is set aside.
func (b *Buffered) replaceFile(path string, text []byte, perm os.FileMode) {
	write := func() error {
		if _, err := os.Lstat(path); err == nil {
			if _, err := quarantine(path, time.Now().Unix()); err != nil {
				return err
			}
		}
		return WriteFile(path, text, perm)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := write(); err != nil {
		b.later = append(b.later, write)
		b.noteBehind(err)
		b.setHealth(func(h *DiskHealth) { h.Unsaved = b.waiting() })
	}
}
