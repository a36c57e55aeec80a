package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// history is a log on disk, with what was acknowledged at each of its sizes.
type history struct {
	log    []byte
	base   int // end of its initial snapshot
	points []point
}

type point struct {
	size int
	want string // the argument of holds
}

func (h *history) at(size int) (want string) {
	for _, p := range h.points {
		if p.size <= size {
			want = p.want
		}
	}
	return want
}

// replayed creates a log of a snapshot followed by puts and deletes of one topic.
func replayed(t *testing.T, changes ...string) *history {
	t.Helper()
	dir := t.TempDir()
	j := open(t, dir)
	must(t, j.Put("t", "old", []byte("x")))
	must(t, j.Close())
	j = open(t, dir) // compacts
	h := &history{base: int(j.size), points: []point{{int(j.size), "old=x"}}}
	for _, c := range changes {
		if key, gone := strings.CutPrefix(c, "-"); gone {
			must(t, j.Delete("t", key))
		} else {
			key, value, _ := strings.Cut(c, "=")
			must(t, j.Put("t", key, []byte(value)))
		}
		values, err := j.Load("t")
		must(t, err)
		want := ""
		for key, value := range values {
			want += fmt.Sprintf("%s=%s ", key, value)
		}
		h.points = append(h.points, point{int(j.size), want})
	}
	must(t, j.Close())
	log, err := os.ReadFile(filepath.Join(dir, journalName))
	must(t, err)
	h.log = log
	return h
}

// opened writes a log to disk and opens it.
func opened(t *testing.T, log []byte) (*Journal, string, error) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, journalName), log, 0o600))
	j, err := OpenJournal(dir)
	if err == nil {
		t.Cleanup(func() { must(t, j.Close()) })
	}
	return j, filepath.Join(dir, journalName), err
}

func refused(t *testing.T, what string, log []byte) *CorruptError {
	t.Helper()
	_, path, err := opened(t, log)
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) {
		t.Fatalf("%s: got %v, want a CorruptError", what, err)
	}
	if corrupt.Path != path ||
		!strings.Contains(err.Error(), fmt.Sprintf("%s: corrupt at offset %d: ", path, corrupt.Offset)) {
		t.Fatalf("%s: the error does not name file and offset: %v", what, err)
	}
	if kept, err := os.ReadFile(path); err != nil || !bytes.Equal(kept, log) {
		t.Fatalf("%s: the file was not kept: %v", what, err)
	}
	return corrupt
}

// A log cut at any byte contains all that was acknowledged before; only the change that was cut is missing.
func TestTruncationAtEveryByte(t *testing.T) {
	h := replayed(t, "web=1", "db=22", "web=2", "-old", "db="+strings.Repeat("3", 200), "web=4")
	for size := range len(h.log) {
		if size < h.base {
			corrupt := refused(t, fmt.Sprint("cut in the snapshot at ", size), h.log[:size])
			if corrupt.Offset > int64(size) {
				t.Fatalf("cut at %d: offset %d", size, corrupt.Offset)
			}
			continue
		}
		j, path, err := opened(t, h.log[:size])
		if err != nil {
			t.Fatalf("cut at %d: %v", size, err)
		}
		holds(t, j, "t", h.at(size))
		must(t, j.Put("t", "next", []byte("1")))
		must(t, j.Close())
		holds(t, open(t, filepath.Dir(path)), "t", h.at(size)+" next=1")
	}
}

// A power cut loses any unsynced pages, not only the last ones, and may leave the file longer than what was written. A
// batch is lost or kept as one.
func TestPagesLostFromTheLastWrite(t *testing.T) {
	h := replayed(t, "web=1", "db=22")
	var payload []byte
	var names []string
	for i := range 8 {
		r := record{opPut, "t", fmt.Sprint("batch-", i), []byte(strings.Repeat("y", 700))}
		payload = appendRecord(payload, r)
		names = append(names, r.key+"="+string(r.value))
	}
	log := appendFrame(bytes.Clone(h.log), int64(len(h.log)), payload)
	whole := h.at(len(h.log)) + " " + strings.Join(names, " ")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 120 {
		torn := bytes.Clone(log)
		lost := false
		for at := len(h.log); at < len(log); at += 512 {
			if sector := torn[at:min(at+512, len(log))]; rng.IntN(3) == 0 {
				clear(sector)
				lost = true
			}
		}
		torn = append(torn, make([]byte, rng.IntN(3)*512)...)
		j, _, err := opened(t, torn)
		must(t, err)
		if lost {
			holds(t, j, "t", h.at(len(h.log)))
		} else {
			holds(t, j, "t", whole)
		}
		if j.Stats().Torn == 0 && (lost || len(torn) > len(log)) {
			t.Fatal("a torn tail was not noticed")
		}
	}
}

// A flipped bit never changes a value unnoticed. Before the last frame the log is refused; in the last frame the bit
// reads as a torn write of that frame.
func TestBitFlips(t *testing.T) {
	h := replayed(t, "web=1", "db=22", "-web", "web=4")
	last := h.points[len(h.points)-2].size
	for at := range h.log {
		for bit := range 8 {
			log := bytes.Clone(h.log)
			log[at] ^= 1 << bit
			what := fmt.Sprintf("bit %d of byte %d", bit, at)
			if _, end, corrupt := scan(log); (corrupt != nil) != (at < last) || end > last {
				t.Fatalf("%s: whole up to %d, %v", what, end, corrupt)
			}
			if bit != at%8 {
				continue // on disk with one bit of each byte
			}
			if at < last {
				corrupt := refused(t, what, log)
				if corrupt.Offset > int64(at) {
					t.Fatalf("%s: offset %d", what, corrupt.Offset)
				}
				continue
			}
			j, _, err := opened(t, log)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			holds(t, j, "t", h.at(last))
		}
	}
}

func TestDamage(t *testing.T) {
	h := replayed(t, "web=1", "db=22")
	for name, log := range map[string][]byte{
		"an empty file":            {},
		"a file of something else": []byte("hosts: all\n"),
		"a hole in the middle": append(append(bytes.Clone(h.log[:h.base]), make([]byte, h.points[1].size-h.base)...),
			h.log[h.points[1].size:]...),
		"a flipped bit in the snapshot, with nothing behind it": append(bytes.Clone(h.log[:h.base-1]), h.log[h.base-1]^1),
		"a frame missing":             append(bytes.Clone(h.log[:h.base]), h.log[h.points[1].size:]...),
		"a frame twice":               append(bytes.Clone(h.log), h.log[h.points[1].size:]...),
		"a frame of no known content": appendFrame(bytes.Clone(h.log), int64(len(h.log)), []byte{9, 0, 0}),
		"a record that ends too soon": appendFrame(bytes.Clone(h.log), int64(len(h.log)), []byte{1, 1, 't', 5, 'k'}),
	} {
		switch name {
		case "a frame missing", "a frame twice":
			// Frames at a wrong offset do not count: they are a torn tail.
			j, _, err := opened(t, log)
			must(t, err)
			if name == "a frame twice" {
				holds(t, j, "t", h.at(len(h.log)))
			} else {
				holds(t, j, "t", h.at(h.base))
			}
		default:
			refused(t, name, log)
		}
	}
}

// A torn write of a value that contains a piece of another journal is not mistaken for a frame.
func TestATornValueThatHoldsAFrameIsTorn(t *testing.T) {
	h := replayed(t, "web=1")
	payload := appendRecord(nil, record{opPut, "t", "copy", append(bytes.Clone(h.log), make([]byte, 100)...)})
	log := appendFrame(bytes.Clone(h.log), int64(len(h.log)), payload)
	j, _, err := opened(t, log[:len(log)-1])
	must(t, err)
	holds(t, j, "t", h.at(len(h.log)))
}

// A crash in a compaction leaves the old log and a temporary file, complete or not, or the new log alone.
func TestCrashInACompaction(t *testing.T) {
	h := replayed(t, "web=1", "web=2", "db=3")
	compact := snapshot(map[string]map[string][]byte{"t": {"lost": []byte("if the temporary file were read")}})
	for _, size := range []int{0, 1, headerSize - 1, headerSize, headerSize + 5, len(compact)} {
		dir := t.TempDir()
		temp := filepath.Join(dir, "."+journalName+tempInfix+"123456")
		must(t, os.WriteFile(filepath.Join(dir, journalName), h.log, 0o600))
		must(t, os.WriteFile(temp, compact[:size], 0o600))
		j := open(t, dir)
		holds(t, j, "t", h.at(len(h.log)))
		if _, err := os.Stat(temp); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the temporary file is still there: %v", err)
		}
		must(t, j.Close())
	}
}

func TestGarbageIsCompacted(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	must(t, j.Put("t", "kept", []byte("1")))
	value := bytes.Repeat([]byte("x"), 1000)
	biggest := int64(0)
	for range 500 {
		must(t, j.Put("t", "k", value))
		biggest = max(biggest, j.Stats().Size)
	}
	s := j.Stats()
	if limit := int64(2*slack + 4*len(value)); biggest > limit || s.Compactions < 3 {
		t.Errorf("the log grew to %d, limit %d: %+v", biggest, limit, s)
	}
	if file, err := os.Stat(j.path); err != nil || file.Size() != s.Size {
		t.Errorf("size %v, want %d: %v", file.Size(), s.Size, err)
	}
	must(t, j.Delete("t", "k"))
	if live := j.Stats().Live; live != liveSize(record{opPut, "t", "kept", []byte("1")}) {
		t.Errorf("%d bytes live", live)
	}
	must(t, j.Close())
	holds(t, open(t, dir), "t", "kept=1")
}

// A snapshot of more than one frame.
func TestManyValues(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	want := ""
	for i := range 300 {
		value := strings.Repeat("z", 1000)
		must(t, j.Put("t", fmt.Sprint(i), []byte(value)))
		want += fmt.Sprintf("%d=%s ", i, value)
	}
	must(t, j.Close())
	for range 2 {
		j = open(t, dir)
		holds(t, j, "t", want)
		must(t, j.Close())
	}
}

// The new log cannot be created: the old one remains in use, and the compaction is retried, but not with each change.
func TestACompactionThatFailsCostsNothing(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	must(t, j.Put("t", "k", []byte("1")))
	full, tries := errors.New("no space left on device"), 0
	j.disk.sync = func(*os.File) error { tries++; return full }
	value := bytes.Repeat([]byte("x"), 1000)
	for range 120 {
		must(t, j.Put("t", "big", value))
	}
	if s := j.Stats(); !errors.Is(s.CompactErr, full) || s.Compactions != 0 || tries != 2 {
		t.Fatalf("tried %d times, want 2: at once and at half as much again: %+v", tries, s)
	}
	j.disk = theDisk
	for range 120 {
		must(t, j.Put("t", "big", value))
	}
	if s := j.Stats(); s.CompactErr != nil || s.Compactions == 0 {
		t.Errorf("it was not tried again: %+v", s)
	}
	must(t, j.Close())
	holds(t, open(t, dir), "t", "k=1 big="+string(value))
}

// The power may fail while a compaction waits for the folder's sync. Then it is unknown which log has the name, and an
// append to either may be lost.
func TestACompactionThatMayBeLostEndsWriting(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	broken := errors.New("input/output error")
	j.disk.sync = func(f *os.File) error {
		if f.Name() == dir {
			return broken
		}
		return f.Sync()
	}
	value := bytes.Repeat([]byte("x"), 1000)
	puts := 0
	var err error
	for err == nil && puts < 1000 {
		if err = j.Put("t", fmt.Sprint(puts%2), value); err == nil {
			puts++
		}
	}
	if !errors.Is(err, broken) || puts < slack/len(value) {
		t.Fatalf("after %d puts: %v", puts, err)
	}
	must(t, j.Close())
	j = open(t, dir)
	holds(t, j, "t", fmt.Sprintf("0=%s 1=%s", value, value)) // all that was acknowledged
}

// A disk on which no file can be created, such as a full one, keeps no daemon from starting.
func TestOpenOnAFullDisk(t *testing.T) {
	h := replayed(t, "web=1", "db=222222222222") // its tail is longer than the next frame
	for _, size := range []int{len(h.log), len(h.log) - 1} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, journalName), h.log[:size], 0o600))
		full := errors.New("no space left on device")
		lock, err := acquireLock(filepath.Join(dir, lockName))
		must(t, err)
		j := &Journal{
			path: filepath.Join(dir, journalName), lock: lock, next: &batch{}, live: map[string]map[string][]byte{},
			disk: disk{sync: func(*os.File) error { return full }},
		}
		must(t, j.open())
		if s := j.Stats(); !errors.Is(s.CompactErr, full) {
			t.Errorf("the compaction did not fail: %+v", s)
		}
		holds(t, j, "t", h.at(size))
		must(t, j.Put("t", "next", []byte("1")))
		must(t, j.Close())
		j = open(t, dir)
		holds(t, j, "t", h.at(size)+" next=1")
		if torn := j.Stats().Torn; torn != 0 {
			t.Errorf("%d bytes of the torn tail stayed behind the next change", torn)
		}
		must(t, j.Close())
	}
}
