package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// slotWorld is a slot on a platter, with what may be read from it.
type slotWorld struct {
	*platter
	r     *rand.Rand
	slots *Slots
	value int
	now   string   // read while the power is on
	after []string // may be read after a power cut
	log   []string
}

const nothing = "nothing"

func newSlotWorld(t testing.TB, seed uint64, sector int) *slotWorld {
	w := &slotWorld{platter: newPlatter(t, t.TempDir(), sector), r: rand.New(rand.NewPCG(seed, 3)), now: nothing,
		after: []string{nothing}}
	if w.r.IntN(3) == 0 { // an earlier version was used before
		path := filepath.Join(w.dir, "s-v")
		must(t, os.WriteFile(path, []byte("old form"), 0o600))
		w.of(path)
		old := w.names["s-v"]
		for i, of := range old.sectors {
			old.sectors[i] = of[len(of)-1:]
		}
		old.size, old.dirty, w.kept["s-v"] = old.size[len(old.size)-1:], map[int]bool{}, old
		w.now, w.after = "old form", []string{"old form"}
	}
	w.start()
	return w
}

func (w *slotWorld) start() {
	w.slots = NewSlots(filepath.Join(w.dir, "s"))
	w.slots.disk = w.disk()
}

func (w *slotWorld) read() string {
	text, err := w.slots.Read("v")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothing
	case err != nil:
		return err.Error()
	}
	return string(text)
}

func (w *slotWorld) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.log, "\n"))
}

// once changes the slot, and reports whether the power failed.
func (w *slotWorld) once() (off bool) {
	remove := w.r.IntN(4) == 0
	w.value++
	next, was := nothing, w.now
	var err error
	if remove {
		err = w.slots.Remove("v")
	} else {
		next = fmt.Sprintf("%d %s", w.value, bytes.Repeat([]byte{byte('a' + w.value%26)}, w.r.IntN(1<<w.r.IntN(15))))
		err = w.slots.Write("v", []byte(next))
	}
	w.log = append(w.log, fmt.Sprintf("%.20s of %d octets: %v", next, len(next), err))
	switch {
	case err == nil && remove:
		w.now, w.after = next, append(w.after, next)
	case err == nil:
		w.now, w.after = next, []string{next}
	default:
		w.after = append(w.after, next)
	}
	if errors.Is(err, errPower) {
		return true
	}
	if got := w.read(); got != w.now {
		// A folder that was not synced may have the name all the same; what was removed may be back.
		if err == nil || !slices.Contains(w.after, got) {
			w.fatal("it reads %.60s, not %.60s, before %.60s", got, w.now, was)
		}
		w.now = got
	}
	return false
}

// Whatever is done to a slot, by any sequence of processes, with disk errors or without: a read returns the last value
// written. After a power cut at any step, with any of the unsynced sectors on the disk, it returns the last value
// written or the one being written.
func TestPowerCutsLeaveASlotOldOrNew(t *testing.T) {
	lives := 400
	if testing.Short() {
		lives = 100
	}
	cuts := 0
	for seed := range uint64(lives) {
		w := newSlotWorld(t, seed, []int{512, 4096}[seed%2])
		w.cut = 1 + w.r.IntN(12)
		for range 25 {
			if w.r.IntN(6) == 0 {
				w.fails[w.steps+1+w.r.IntN(4)] = true
			}
			if w.r.IntN(5) == 0 { // another process
				w.log = append(w.log, "start")
				w.start()
				if got := w.read(); got != w.now {
					w.fatal("life %d: after a start it reads %.60s, not %.60s", seed, got, w.now)
				}
			}
			if !w.once() {
				continue
			}
			cuts++
			w.crash(w.r)
			w.start()
			w.log = append(w.log, "CUT")
			got := w.read()
			if !slices.Contains(w.after, got) {
				w.fatal("life %d: after a power cut it reads %.80s, none of %d", seed, got, len(w.after))
			}
			w.now, w.after = got, []string{got}
			w.cut = 1 + w.r.IntN(12)
		}
	}
	t.Logf("%d power cuts", cuts)
	if cuts < 2*lives {
		t.Errorf("only %d power cuts", cuts)
	}
}

// torn is a slot whose two halves contain old and older, with new written over the latter.
func torn(t *testing.T, dir string, older, old, value string) (path string, before, after []byte) {
	t.Helper()
	s := NewSlots(filepath.Join(dir, "s"))
	for _, v := range []string{older, old} {
		must(t, s.Write("v", []byte(v)))
	}
	path = filepath.Join(dir, "s-v.0")
	before, err := os.ReadFile(path)
	must(t, err)
	must(t, s.Write("v", []byte(value)))
	after, err = os.ReadFile(path)
	must(t, err)
	if got := names(t, dir); got != "s-v.0 s-v.1" || !bytes.Contains(after, []byte(value)) {
		t.Fatalf("it is not written to the first half: %s", got)
	}
	return path, before, after
}

// The power fails in the middle of a write, at each byte from either end and between any sectors, while the file keeps
// its size, shrinks in use or grows.
func TestATornWriteOfASlotIsOldOrNewAtEachOctet(t *testing.T) {
	long, short := strings.Repeat("lang ", 700), strings.Repeat("s", 300)
	for _, c := range []struct{ older, value string }{{long, long[1:]}, {long, short}, {short, long}} {
		dir := t.TempDir()
		path, before, after := torn(t, dir, c.older, "the old value", c.value)
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		must(t, err)
		defer file.Close()
		seen := map[string]int{}
		try := func(what string, text []byte) {
			t.Helper()
			_, err := file.WriteAt(text, 0) // no new file: the test's disk is slow with those
			must(t, errors.Join(err, file.Truncate(int64(len(text)))))
			got, err := NewSlots(filepath.Join(dir, "s")).Read("v")
			if err != nil || string(got) != "the old value" && string(got) != c.value {
				t.Fatalf("%s: %.60q %v", what, got, err)
			}
			seen[string(got)]++
		}
		full := max(len(before), len(after))
		pad := func(text []byte) []byte { return append(bytes.Clone(text), make([]byte, full-len(text))...) }
		old, value := pad(before), pad(after)
		limit := pages(halfHead + max(len(c.older), len(c.value))) // what is behind it is not written
		for k := range limit + 1 {
			if k%512 > 40 && k%512 < 472 && k%7 > 0 { // the ends of sectors, and some between
				continue
			}
			try(fmt.Sprint("the first ", k), slices.Concat(value[:k], before[min(k, len(before)):]))
			try(fmt.Sprint("all but the first ", k), slices.Concat(old[:k], value[k:]))
		}
		for _, sector := range []int{512, 4096} {
			n := limit / sector
			for which := range 1 << n {
				text := bytes.Clone(old)
				for i := range n {
					if which>>i&1 == 1 {
						copy(text[i*sector:], value[i*sector:(i+1)*sector])
					}
				}
				try(fmt.Sprintf("sectors %b of %d octets", which, sector), text)
			}
		}
		if seen["the old value"] < 100 || seen[c.value] < 2 {
			t.Errorf("%.10s: %v", c.value, seen)
		}
	}
}
