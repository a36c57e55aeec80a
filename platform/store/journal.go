package store

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	journalName = "journal"
	lockName    = "journal.lock"
	journalPerm = 0o600 // configs may hold secrets

	// MaxValue is the size limit of a value in bytes: far above any config, far below the limit of a frame's length.
	MaxValue = 16 << 20

	// slack is how many bytes of garbage a log may hold in addition to as much garbage as live data. It saves small
	// logs from compacting every few changes.
	slack = 64 << 10
)

// ErrLocked reports that another daemon holds the journal.
var ErrLocked = errors.New("in use by another process")

// logFile is the part of *os.File that writes a log. Tests replace it to make the disk fail (docs/architecture.md, law
// 13).
type logFile interface {
	WriteAt(b []byte, off int64) (int, error)
	Sync() error
	Truncate(size int64) error
	Close() error
}

// Journal stores values by topic and key in an append-only log. It syncs each change before it acknowledges it;
// concurrent changes share one write and one sync. It is safe for concurrent use and implements pubsub's journal.
type Journal struct {
	path string
	lock *os.File
	disk disk

	writing sync.Mutex // held by the writer for a whole batch
	file    logFile
	size    int64 // end of the last whole frame
	retryAt int64 // size at which a failed compaction is retried

	mu     sync.Mutex // acquired after writing
	next   *batch
	live   map[string]map[string][]byte // the data on disk; changed under both locks
	broken error                        // why no further change is accepted
	stats  Stats
}

// batch holds the changes of the next sync. The holder of Journal.writing sets done and err.
type batch struct {
	records []record
	payload []byte
	done    bool
	err     error
}

// Stats describes a journal.
type Stats struct {
	Size        int64 // of the log, in bytes
	Live        int64 // bytes of current values
	Torn        int64 // bytes of an unfinished write that were cut at opening
	Compactions int   // since it was opened
	CompactErr  error // why the last compaction failed; the old log remains in use
}

// OpenJournal opens or creates the journal in a folder. It locks the journal for this process (ErrLocked), cuts a write
// that a crash left unfinished, and compacts the log. It refuses a log with other damage with *CorruptError and keeps
// it.
func OpenJournal(dir string) (*Journal, error) {
	if err := theDisk.makeDir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open journal in %s: %w", dir, err)
	}
	lock, err := acquireLock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	j := newJournal(dir, lock)
	if err := j.open(); err != nil {
		if j.file != nil {
			err = errors.Join(err, j.file.Close())
		}
		return nil, errors.Join(err, lock.Close())
	}
	return j, nil
}

func newJournal(dir string, lock *os.File) *Journal {
	return &Journal{
		path: filepath.Join(dir, journalName), lock: lock, disk: theDisk,
		next: &batch{}, live: map[string]map[string][]byte{},
	}
}

// acquireLock locks a separate file, because compaction replaces the log. The descriptor is closed on exec: dnsmasq
// outlives the daemon and must not keep the lock.
func acquireLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, journalPerm)
	if err != nil {
		return nil, fmt.Errorf("open journal lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock journal %s: %w", path, err), f.Close())
	}
	return f, nil
}

// Load returns the values of a topic by key, as far as they are on disk.
func (j *Journal) Load(topic string) (map[string][]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if errors.Is(j.broken, os.ErrClosed) {
		return nil, fmt.Errorf("load %s from journal %s: %w", topic, j.path, j.broken)
	}
	values := make(map[string][]byte, len(j.live[topic]))
	for key, value := range j.live[topic] {
		values[key] = bytes.Clone(value)
	}
	return values, nil
}

// Put returns once the value is on disk. After an error either the old or the new value is there. If even a sync
// failed, the content of the disk is unknown: every further change fails until the journal is opened again.
func (j *Journal) Put(topic, key string, value []byte) error {
	if err := checkSize(topic, key, value); err != nil {
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	if err := j.commit(record{opPut, topic, key, bytes.Clone(value)}); err != nil {
		return fmt.Errorf("put %s %s in journal %s: %w", topic, key, j.path, err)
	}
	return nil
}

func checkSize(topic, key string, value []byte) error {
	if size := len(topic) + len(key) + len(value); size > MaxValue {
		return fmt.Errorf("put %s %s: %d bytes: must be at most %d", topic, key, size, MaxValue)
	}
	return nil
}

// Delete returns once the removal is on disk. An absent key is no error.
func (j *Journal) Delete(topic, key string) error {
	if err := j.commit(record{op: opDelete, topic: topic, key: key}); err != nil {
		return fmt.Errorf("delete %s %s from journal %s: %w", topic, key, j.path, err)
	}
	return nil
}

// putAll returns once all records are on disk, in one write.
func (j *Journal) putAll(records []record) error { return j.commit(records...) }

// commit joins the next batch. The first caller that gets the disk writes for all that joined while the disk was busy;
// the others find their batch done.
func (j *Journal) commit(records ...record) error {
	j.mu.Lock()
	b := j.next
	for _, r := range records {
		b.records = append(b.records, r)
		b.payload = appendRecord(slices.Grow(b.payload, int(liveSize(r))+recordHead), r)
	}
	j.mu.Unlock()

	j.writing.Lock()
	defer j.writing.Unlock()
	if b.done {
		return b.err
	}
	j.mu.Lock()
	j.next = &batch{}
	j.mu.Unlock()
	b.err = j.flush(b)
	b.done = true
	if b.err == nil {
		j.compactIfWorth()
	}
	return b.err
}

func (j *Journal) flush(b *batch) error {
	if j.broken != nil {
		return j.broken
	}
	if len(b.payload) > math.MaxUint32 {
		return fmt.Errorf("%d bytes at once: must be at most %d", len(b.payload), math.MaxUint32)
	}
	frame := appendFrame(make([]byte, 0, frameHead+len(b.payload)), j.size, b.payload)
	if _, err := j.file.WriteAt(frame, j.size); err != nil {
		// A full disk is temporary. Cut the partly written frame, because the next one may be shorter.
		if cut := j.file.Truncate(j.size); cut != nil {
			j.markBroken(errors.Join(err, cut))
		}
		return err
	}
	if err := j.file.Sync(); err != nil {
		j.markBroken(err) // the kernel may have dropped the pages: a second sync could falsely succeed
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.size += int64(len(frame))
	for _, r := range b.records {
		j.apply(r)
	}
	return nil
}

func (j *Journal) markBroken(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broken = fmt.Errorf("broken by an earlier failure: %w", err)
}

// apply changes the live data by one record that is on disk.
func (j *Journal) apply(r record) {
	keys := j.live[r.topic]
	if old, was := keys[r.key]; was {
		j.stats.Live -= liveSize(record{opPut, r.topic, r.key, old})
	}
	if r.op == opDelete {
		delete(keys, r.key)
		if len(keys) == 0 {
			delete(j.live, r.topic)
		}
		return
	}
	if keys == nil {
		keys = map[string][]byte{}
		j.live[r.topic] = keys
	}
	keys[r.key] = r.value
	j.stats.Live += liveSize(r)
}

func liveSize(r record) int64 { return int64(len(r.topic) + len(r.key) + len(r.value)) }

// Stats returns the journal's stats. It waits for a write in progress.
func (j *Journal) Stats() Stats {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.stats
	s.Size = j.size
	return s
}

// Close closes the journal and releases its lock. Changes that have not reached the disk fail. Close may be called
// again.
func (j *Journal) Close() error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if errors.Is(j.broken, os.ErrClosed) {
		return nil
	}
	j.broken = os.ErrClosed
	var err error
	if j.file != nil {
		err = j.file.Close()
	}
	if j.lock != nil {
		err = errors.Join(err, j.lock.Close())
	}
	if err != nil {
		return fmt.Errorf("close journal %s: %w", j.path, err)
	}
	return nil
}
