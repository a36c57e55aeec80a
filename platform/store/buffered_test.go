package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
)

// buffered opens the journal of a folder as a node does.
func buffered(t testing.TB, dir string) *Buffered {
	t.Helper()
	b, err := OpenBuffered(dir, BufferedOptions{})
	must(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func values(t testing.TB, b *Buffered, topic string) string {
	t.Helper()
	all, err := b.Load(topic)
	must(t, err)
	var words []string
	for k, v := range all {
		words = append(words, k+"="+string(v))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// recorded returns a journal with a boot number, a snapshot and some changes.
func recorded(t testing.TB) (log []byte) {
	t.Helper()
	dir := t.TempDir()
	b := buffered(t, dir)
	must(t, b.Put("t", "old", []byte("x")))
	must(t, b.Put("t", "gone", []byte("y")))
	must(t, b.Close())
	b = buffered(t, dir) // compacts
	for i, change := range []string{"web=1", "db=22", "-gone", "web=2", "old=" + strings.Repeat("z", 40)} {
		if key, gone := strings.CutPrefix(change, "-"); gone {
			must(t, b.Delete("t", key))
		} else {
			key, value, _ := strings.Cut(change, "=")
			must(t, b.Put("t", key, []byte(value)))
		}
		if i == 2 {
			must(t, b.Put("other", "k", []byte("of a topic that this release does not know")))
		}
	}
	must(t, b.Close())
	log, err := os.ReadFile(filepath.Join(dir, journalName))
	must(t, err)
	return log
}

// frames returns the offsets of the complete frames of a log.
func frames(log []byte) (at []int) {
	for i := headerSize; i < len(log); {
		payload, ok := cutFrame(log, i)
		if !ok {
			break
		}
		at = append(at, i)
		i += frameHead + len(payload)
	}
	return append(at, len(log))
}

// without returns the topic's content if one frame of a log had never been written.
func without(log []byte, frame int) string {
	live := map[string]string{}
	at := frames(log)
	for i := range len(at) - 1 {
		if i == frame {
			continue
		}
		payload, _ := cutFrame(log, at[i])
		records, _ := parseRecords(payload)
		for _, r := range records {
			if r.topic != "t" {
				continue
			}
			if delete(live, r.key); r.op == opPut {
				live[r.key] = string(r.value)
			}
		}
	}
	var words []string
	for k, v := range live {
		words = append(words, k+"="+v)
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// A bit flipped anywhere in a journal keeps no node from starting: all frames but the damaged one are read, the damaged
// file is kept, no number is used again, and the next start finds nothing wrong.
func TestABitFlippedAnywhereStillStarts(t *testing.T) {
	log := recorded(t)
	at := frames(log)
	for offset := range log {
		if testing.Short() && offset%9 != 0 {
			continue
		}
		bad := bytes.Clone(log)
		bad[offset] ^= 1 << (offset % 8)
		dir := t.TempDir()
		path := filepath.Join(dir, journalName)
		must(t, os.WriteFile(path, bad, 0o600))
		frame := -1 // the header
		for i := range len(at) - 1 {
			if offset >= at[i] && offset < at[i+1] {
				frame = i
			}
		}
		b := buffered(t, dir)
		what := fmt.Sprintf("bit %d of octet %d, in frame %d", offset%8, offset, frame)
		if got, want := values(t, b, "t"), without(log, frame); got != want {
			t.Fatalf("%s: has %s, want %s", what, got, want)
		}
		torn := frame == len(at)-2 // the last frame reads as a write that was cut
		kept := Quarantined(path)
		if torn != (len(kept) == 0) || torn != (b.Floor() == 0) || torn != (len(b.Health().Notes) == 0) ||
			b.Health().Fault != "" {
			t.Fatalf("%s: kept %v, floor %d, health %+v", what, kept, b.Floor(), b.Health())
		}
		if !torn {
			if text, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(text, bad) {
				t.Fatalf("%s: the copy differs: %v", what, err)
			}
			if b.Boot() < unknownBoot {
				t.Fatalf("%s: boot %d may have been before", what, b.Boot())
			}
		}
		boot, floor := b.Boot(), b.Floor()
		must(t, b.Put("t", "next", []byte("1")))
		must(t, b.Close())
		b = buffered(t, dir)
		if b.Boot() != boot+1 || b.Floor() != floor || b.Health().Notes != nil ||
			!strings.Contains(values(t, b, "t"), "next=1") {
			t.Fatalf("%s: the next start: boot %d after %d, floor %d after %d, %+v, %s", what, b.Boot(), boot, b.Floor(), floor,
				b.Health(), values(t, b, "t"))
		}
		must(t, b.Close())
	}
}

// The same holds for a journal that ends anywhere: nothing before its end is lost.
func TestAJournalThatEndsAnywhereStillStarts(t *testing.T) {
	log := recorded(t)
	at := frames(log)
	for size := range len(log) {
		if testing.Short() && size%9 != 0 {
			continue
		}
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, journalName), log[:size], 0o600))
		whole := at[0]
		for _, end := range at {
			if end <= size {
				whole = end
			}
		}
		b := buffered(t, dir)
		if got, want := values(t, b, "t"), without(log[:whole], -1); got != want {
			t.Fatalf("cut at %d: has %q, want %q", size, got, want)
		}
		must(t, b.Close())
	}
}

// Whatever a journal's file contains, a node starts.
func FuzzOpenBuffered(f *testing.F) {
	log := recorded(f)
	f.Add(log)
	f.Add([]byte(nil))
	f.Add(log[:len(log)/2])
	f.Add(append(bytes.Clone(log[len(log)/2:]), log...))
	f.Add([]byte("edgespan journal 2\n"))
	f.Fuzz(func(t *testing.T, log []byte) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, journalName), log, 0o600))
		b := buffered(t, dir)
		_, _, corrupt := scan(log)
		if (corrupt != nil) != (b.Floor() > 0) && b.Floor() < floorStep {
			t.Fatalf("%v, and the floor is %d", corrupt, b.Floor())
		}
		must(t, b.Put("t", "after", []byte("1")))
		must(t, b.Close())
		if again := buffered(t, dir); again.Boot() == b.Boot() || !strings.Contains(values(t, again, "t"), "after=1") {
			t.Fatalf("boot %d twice, or a value lost: %s", b.Boot(), values(t, again, "t"))
		}
	})
}

// fail makes the disk of an open journal refuse every write, until heal.
func fail(b *Buffered, err error) (heal func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, disk := b.journal.file, b.journal.disk
	b.journal.file = &faultyFile{logFile: was, write: err, sync: err}
	b.journal.disk.sync = func(*os.File) error { return err }
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.journal.file, b.journal.disk = was, disk
		b.catchUp()
	}
}

// What the disk refuses is kept and reported, and written once the disk accepts it. A process that dies before that
// repeats no number.
func TestADiskThatRefusesEndsNothing(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EROFS} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprint(errno, " killed ", killed), func(t *testing.T) {
				dir := t.TempDir()
				b := buffered(t, dir)
				must(t, b.Put("t", "a", []byte("1")))
				var reported []DiskHealth
				b.Watch(func(h DiskHealth) { reported = append(reported, h) })
				if len(reported) != 1 || reported[0].Fault != "" {
					t.Fatalf("told at first: %+v", reported)
				}
				heal := fail(b, errno)
				must(t, b.Put("t", "a", []byte("2")))
				must(t, b.Put("t", "b", []byte("2")))
				must(t, b.Delete("t", "c"))
				if h := b.Health(); !strings.Contains(h.Fault, errno.Error()) || h.Unsaved != 3 || h.Since.IsZero() {
					t.Fatalf("health %+v", h)
				}
				if got := values(t, b, "t"); got != "a=2 b=2" {
					t.Fatalf("in memory: %s", got)
				}
				if killed {
					kill(t, b)
					again := buffered(t, dir)
					if got := values(t, again, "t"); got != "a=1" {
						t.Fatalf("after a kill: %s", got)
					}
					if again.Boot() != b.Boot()+1 || again.Floor() == b.Floor() || !again.MayLackChanges() {
						t.Fatalf("boot %d, floor %d, %+v", again.Boot(), again.Floor(), again.Health())
					}
					must(t, again.Close())
					if third := buffered(t, dir); third.Floor() != again.Floor() || third.Health().Notes != nil {
						t.Fatalf("the start after it: floor %d, %+v", third.Floor(), third.Health())
					}
					return
				}
				heal()
				if h := b.Health(); h.Fault != "" || h.Unsaved != 0 || reported[len(reported)-1].Fault != "" {
					t.Fatalf("health %+v", h)
				}
				must(t, b.Close())
				again := buffered(t, dir)
				if got := values(t, again, "t"); got != "a=2 b=2" || again.Floor() != 0 {
					t.Fatalf("on disk: %s, floor %d", got, again.Floor())
				}
			})
		}
	}
}

// kill ends a journal as the death of its process does.
func kill(t testing.TB, b *Buffered) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.timer != nil {
		b.timer.Stop()
	}
	must(t, b.journal.Close())
}

// Whatever the disk refuses and whenever the process dies: a value that Health reports as written is there, and no boot
// number or counted version is ever used twice.
func TestNoNumberIsRepeatedWhateverTheDiskDoes(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 7))
		dir := t.TempDir()
		boots, versions := map[uint64]bool{}, map[uint64]bool{}
		for range 12 {
			b := buffered(t, dir)
			if boots[b.Boot()] {
				t.Fatalf("seed %d: boot %d twice", seed, b.Boot())
			}
			boots[b.Boot()] = true
			all, err := b.Load("t")
			must(t, err)
			var version uint64
			_, _ = fmt.Sscan(string(all["version"]), &version)
			version = max(version, b.Floor())
			heal := func() {}
			for range rng.IntN(8) {
				switch rng.IntN(4) {
				case 0:
					heal()
					heal = fail(b, []error{syscall.ENOSPC, syscall.EIO}[rng.IntN(2)])
				case 1:
					heal()
					heal = func() {}
				default:
					version++
					if versions[version] {
						t.Fatalf("seed %d: version %d twice", seed, version)
					}
					versions[version] = true
					must(t, b.Put("t", "version", fmt.Append(nil, version)))
				}
			}
			written := b.Health().Fault == ""
			if rng.IntN(2) == 0 {
				kill(t, b)
			} else {
				heal()
				must(t, b.Close())
				written = true
			}
			if damage := rng.IntN(6); damage == 0 {
				path := filepath.Join(dir, journalName)
				log, err := os.ReadFile(path)
				must(t, err)
				if rng.IntN(2) == 0 {
					must(t, os.Remove(path))
					must(t, os.WriteFile(filepath.Join(dir, idName), []byte(uuid.NewString()+"\n"), 0o600))
				} else {
					log[rng.IntN(headerSize)] ^= 4
					must(t, os.WriteFile(path, log, 0o600))
				}
				continue
			}
			if written {
				next := buffered(t, dir)
				boots[next.Boot()] = true
				if got := values(t, next, "t"); version > next.Floor() && versions[version] &&
					got != fmt.Sprint("version=", version) {
					t.Fatalf("seed %d: %s is written, not version %d", seed, got, version)
				}
				kill(t, next)
			}
		}
	}
}

// A node starts even on a folder in which nothing can be written.
func TestAFolderThatTakesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	seen := map[uint64]bool{}
	for range 3 {
		b := buffered(t, filepath.Join(file, "state")) // ENOTDIR, for root too
		must(t, b.Put("t", "a", []byte("1")))
		if b.Health().Fault == "" || values(t, b, "t") != "a=1" || seen[b.Boot()] || b.Boot() < volatileBoot ||
			b.Floor() < volatileFloor || b.Floor() >= 1<<53 {
			t.Fatalf("boot %d, floor %d, %+v", b.Boot(), b.Floor(), b.Health())
		}
		seen[b.Boot()] = true
		id, err := b.NodeID(uuid.Nil)
		if err != nil || id == uuid.Nil {
			t.Fatal(id, err)
		}
		must(t, b.Close())
	}
}

func TestStrictRefusesWhatIsDamaged(t *testing.T) {
	dir := t.TempDir()
	log := recorded(t)
	log[headerSize+20] ^= 1
	must(t, os.WriteFile(filepath.Join(dir, journalName), log, 0o600))
	_, err := OpenBuffered(dir, BufferedOptions{Strict: true})
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || Quarantined(filepath.Join(dir, journalName)) != nil {
		t.Fatal(err)
	}
}

func TestTheLockIsKeptWhateverTheDiskDoes(t *testing.T) {
	dir := t.TempDir()
	buffered(t, dir)
	if _, err := OpenBuffered(dir, BufferedOptions{}); !errors.Is(err, ErrLocked) {
		t.Fatal(err)
	}
}

// The number of copies of damaged journals is bounded, and the oldest is among them.
func TestQuarantineIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), journalName)
	for at := range int64(20) {
		must(t, WriteFile(path, nil, 0o600))
		_, err := quarantine(path, 1000+at)
		must(t, err)
	}
	names := Quarantined(path)
	if len(names) != maxQuarantined || !strings.HasSuffix(names[0], "-1000") ||
		!strings.HasSuffix(names[maxQuarantined-1], "-1019") {
		t.Fatal(names)
	}
}

// Files that are quarantined within one second are all kept, each once, however often it is tried.
func TestQuarantineKeepsWhatIsDamagedWithinASecond(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "id")
	for _, text := range []string{"first", "second", "third"} {
		must(t, WriteFile(path, []byte(text), 0o600))
		for range 3 {
			name, err := quarantine(path, 1000)
			must(t, err)
			if kept, err := os.ReadFile(name); err != nil || string(kept) != text {
				t.Fatalf("%s is %q, %v", name, kept, err)
			}
		}
	}
	slot := filepath.Join(dir, "slot")
	for i := range 3 {
		must(t, os.WriteFile(slot+".0", []byte{byte(i)}, 0o600))
		CopyAside(slot)
		CopyAside(slot)
	}
	if ids, slots := Quarantined(path), Quarantined(slot+".0"); len(ids) != 3 || len(slots) != 3 {
		t.Fatal(ids, slots)
	}
}

// A file that can never be written does not cause the others to be written again with each try.
func TestAFileThatIsRefusedHasNothingElseWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	b := buffered(t, dir)
	must(t, os.MkdirAll(filepath.Join(dir, idName, "a"), 0o755)) // no file can replace that
	_, err := b.NodeID(uuid.Nil)
	must(t, err)
	must(t, b.Put("t", "a", []byte("1")))
	try := func() int64 {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.catchUp()
		info, err := os.Stat(filepath.Join(dir, journalName))
		must(t, err)
		return info.Size()
	}
	first := try()
	for range 3 {
		if size := try(); size != first {
			t.Fatalf("the journal grew from %d to %d", first, size)
		}
	}
	if h := b.Health(); h.Fault == "" || h.Unsaved != 1 {
		t.Fatalf("%+v", h)
	}
	must(t, b.Put("t", "b", []byte("2")))
	try()
	must(t, b.Close())
	must(t, os.RemoveAll(filepath.Join(dir, idName)))
	if b = buffered(t, dir); values(t, b, "t") != "a=1 b=2" {
		t.Fatal(values(t, b, "t"))
	}
}

func TestAnIdComesBackFromItsCopies(t *testing.T) {
	bound := uuid.New()
	for _, test := range []struct {
		name, file string
		bound      uuid.UUID
		journal    bool // has a copy
		same       bool // the id is unchanged
	}{
		{"empty", "", uuid.Nil, true, true},
		{"garbage", "\x00\x00", uuid.Nil, true, true},
		{"gone", "-", uuid.Nil, true, true},
		{"bound by a certificate", "", bound, true, false},
		{"gone with the journal, and bound", "-", bound, false, false},
		{"gone with the journal", "-", uuid.Nil, false, true},
		{"nothing names it", "", uuid.Nil, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			b := buffered(t, dir)
			before, err := b.NodeID(uuid.Nil)
			must(t, err)
			if h := b.Health(); h.Notes != nil {
				t.Fatalf("the first start: %+v", h)
			}
			must(t, b.Close())
			path := filepath.Join(dir, idName)
			must(t, os.Remove(path))
			if test.file != "-" {
				must(t, os.WriteFile(path, []byte(test.file), 0o644))
			}
			if !test.journal {
				must(t, os.Remove(filepath.Join(dir, journalName)))
			}
			if test.name == "nothing names it" {
				must(t, os.Remove(filepath.Join(dir, "journal-mark.0")))
				_ = os.Remove(filepath.Join(dir, "journal-mark.1"))
			}
			b = buffered(t, dir)
			id, err := b.NodeID(test.bound)
			must(t, err)
			if (id == before) != test.same || test.bound != uuid.Nil && id != test.bound {
				t.Fatalf("%s became %s, bound %s", before, id, test.bound)
			}
			if len(b.Health().Notes) == 0 {
				t.Fatal("nothing is said")
			}
			if (test.file != "-") != (len(Quarantined(path)) == 1) {
				t.Fatalf("copies: %v", Quarantined(path))
			}
			must(t, b.Close())
			b = buffered(t, dir)
			again, err := b.NodeID(uuid.Nil)
			if err != nil || again != id || b.Health().Notes != nil {
				t.Fatal(again, err, b.Health())
			}
		})
	}
}
