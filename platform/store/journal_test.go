package store

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func open(t testing.TB, dir string) *Journal {
	t.Helper()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, j.Close()) })
	return j
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// holds checks the complete content of a topic, written as "key=value key=value".
func holds(t testing.TB, j *Journal, topic, want string) {
	t.Helper()
	values, err := j.Load(topic)
	must(t, err)
	n := 0
	for _, pair := range strings.Fields(want) {
		key, value, _ := strings.Cut(pair, "=")
		if got, ok := values[key]; !ok || string(got) != value {
			t.Fatalf("%s %s: got %.40q %v, want %q", topic, key, got, ok, value)
		}
		n++
	}
	if len(values) != n {
		t.Fatalf("%s: got %d values %v, want %q", topic, len(values), values, want)
	}
}

func TestJournalKeepsValuesOverClose(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "us")
	j := open(t, dir)
	holds(t, j, "versions", "")
	must(t, j.Put("versions", "web", []byte("1")))
	must(t, j.Put("versions", "web", []byte("2")))
	must(t, j.Put("versions", "db", []byte("7")))
	must(t, j.Put("versions", "gone", []byte("3")))
	must(t, j.Put("leases", "web", nil))
	must(t, j.Delete("versions", "gone"))
	must(t, j.Delete("versions", "never"))
	holds(t, j, "versions", "web=2 db=7")
	must(t, j.Close())
	for range 2 { // the second time from the compacted log alone
		j = open(t, dir)
		holds(t, j, "versions", "web=2 db=7")
		holds(t, j, "leases", "web=")
		holds(t, j, "other", "")
		must(t, j.Close())
	}
}

func TestJournalKeysAndValuesAreBytes(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	odd := "\x00\n" + frameMagic + "ü\xff"
	must(t, j.Put(odd, odd, []byte(odd)))
	must(t, j.Put(odd, "", []byte{}))
	must(t, j.Close())
	values, err := open(t, dir).Load(odd)
	if must(t, err); len(values) != 2 || string(values[odd]) != odd {
		t.Fatalf("got %q", values)
	}
}

func TestJournalValuesAreTheCallersOwn(t *testing.T) {
	j := open(t, t.TempDir())
	value := []byte("a")
	must(t, j.Put("t", "k", value))
	value[0] = 'b'
	values, err := j.Load("t")
	must(t, err)
	values["k"][0] = 'c'
	holds(t, j, "t", "k=a")
}

func TestJournalRefusesAnOversizeValue(t *testing.T) {
	j := open(t, t.TempDir())
	if err := j.Put("t", "k", make([]byte, MaxValue)); err == nil ||
		!strings.Contains(err.Error(), "must be at most 16777216") {
		t.Fatalf("got %v", err)
	}
	must(t, j.Put("t", "k", []byte("1")))
	holds(t, j, "t", "k=1")
}

func TestClosedJournal(t *testing.T) {
	j := open(t, t.TempDir())
	must(t, j.Close())
	_, err := j.Load("t")
	for name, err := range map[string]error{
		"put": j.Put("t", "k", nil), "delete": j.Delete("t", "k"), "load": err,
	} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTwoDaemonsCannotShareAJournal(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	must(t, j.Put("t", "k", []byte("1")))
	if _, err := OpenJournal(dir); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second open: %v", err)
	}
	must(t, j.Put("t", "k", []byte("2"))) // the refused one left no trace
	must(t, j.Close())
	holds(t, open(t, dir), "t", "k=2")
}

// A process that outlives the daemon, as dnsmasq does, does not inherit the lock.
func TestChildrenDoNotInheritTheLock(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	must(t, err)
	must(t, child.Start())
	must(t, j.Close())
	again, err := OpenJournal(dir)
	must(t, in.Close())
	must(t, child.Wait())
	must(t, err)
	must(t, again.Close())
}

// Changes that arrive while the disk is busy share the next sync: 16 writers, and the first sync ends only after the
// other 15 have joined.
func TestWritersShareASync(t *testing.T) {
	const writers = 16
	j := open(t, t.TempDir())
	disk := &faultyFile{logFile: j.file}
	inSync := make(chan struct{})
	disk.beforeSync = func(n int64) {
		if n > 1 {
			return
		}
		close(inSync)
		for joined := 0; joined < writers-1; {
			runtime.Gosched()
			j.mu.Lock()
			joined = len(j.next.records)
			j.mu.Unlock()
		}
	}
	j.file = disk
	var group sync.WaitGroup
	put := func(w int) {
		if err := j.Put("t", fmt.Sprint(w), []byte("x")); err != nil {
			t.Error(err)
		}
	}
	group.Go(func() { put(0) })
	<-inSync
	for w := 1; w < writers; w++ {
		group.Go(func() { put(w) })
	}
	group.Wait()
	if n := disk.syncs.Load(); n != 2 {
		t.Errorf("%d syncs, want 2", n)
	}
	if values, err := j.Load("t"); err != nil || len(values) != writers {
		t.Errorf("loaded %d values %v", len(values), err)
	}
}

// A change that failed with its batch fails for every writer that joined it.
func TestASharedWriteFailsForAll(t *testing.T) {
	j := open(t, t.TempDir())
	full := errors.New("no space left on device")
	j.file = &faultyFile{logFile: j.file, write: full}
	var failed atomic.Int64
	var group sync.WaitGroup
	for w := range 8 {
		group.Go(func() {
			if err := j.Put("t", fmt.Sprint(w), nil); errors.Is(err, full) {
				failed.Add(1)
			}
		})
	}
	group.Wait()
	if failed.Load() != 8 {
		t.Errorf("%d of 8 failed", failed.Load())
	}
	holds(t, j, "t", "")
}

func TestConcurrentWritersLoseNothing(t *testing.T) {
	const writers, each = 16, 25
	dir := t.TempDir()
	j := open(t, dir)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for n := range each {
				if err := j.Put("t", fmt.Sprint(w), fmt.Append(nil, n)); err != nil {
					t.Error(err)
				}
				if values, err := j.Load("t"); err != nil || string(values[fmt.Sprint(w)]) != fmt.Sprint(n) {
					t.Errorf("acknowledged %d, loaded %q %v", n, values[fmt.Sprint(w)], err)
				}
				j.Stats()
			}
		})
	}
	group.Wait()
	want := ""
	for w := range writers {
		want += fmt.Sprintf("%d=%d ", w, each-1)
	}
	must(t, j.Close())
	holds(t, open(t, dir), "t", want)
}

// faultyFile is a disk that fails on demand.
type faultyFile struct {
	logFile
	syncs      atomic.Int64
	beforeSync func(n int64)
	short      int // bytes written before a write fails; 0: writes succeed
	write      error
	sync       error
	truncate   error
}

func (f *faultyFile) WriteAt(b []byte, off int64) (int, error) {
	if f.write == nil {
		return f.logFile.WriteAt(b, off)
	}
	n, _ := f.logFile.WriteAt(b[:min(f.short, len(b))], off)
	return n, f.write
}

func (f *faultyFile) Sync() error {
	if n := f.syncs.Add(1); f.beforeSync != nil {
		f.beforeSync(n)
	}
	if f.sync != nil {
		return f.sync
	}
	return f.logFile.Sync()
}

func (f *faultyFile) Truncate(size int64) error {
	if f.truncate != nil {
		return f.truncate
	}
	return f.logFile.Truncate(size)
}

func TestAFullDiskPasses(t *testing.T) {
	for _, short := range []int{0, 1, 11, 12, 30} {
		dir := t.TempDir()
		j := open(t, dir)
		must(t, j.Put("t", "k", []byte("before")))
		full := errors.New("no space left on device")
		disk := &faultyFile{logFile: j.file, short: short, write: full}
		j.file = disk
		err := j.Put("t", "k", []byte(strings.Repeat("x", 100)))
		if !errors.Is(err, full) || !strings.HasPrefix(err.Error(), "put t k in journal "+dir+"/journal: ") {
			t.Fatalf("got %v", err)
		}
		holds(t, j, "t", "k=before")
		disk.write = nil
		must(t, j.Put("t", "after", []byte("1")))
		must(t, j.Close())
		j = open(t, dir)
		holds(t, j, "t", "k=before after=1")
		if torn := j.Stats().Torn; torn != 0 {
			t.Errorf("%d bytes of the failed write stayed in the log", torn)
		}
	}
}

// After a failed sync the kernel may report success for data that it dropped, so the journal refuses further writes.
// What it acknowledged stays readable.
func TestAFailedSyncEndsWriting(t *testing.T) {
	for name, fault := range map[string]func(*faultyFile, error){
		"sync":              func(f *faultyFile, err error) { f.sync = err },
		"write and cutting": func(f *faultyFile, err error) { f.write, f.short, f.truncate = err, 5, err },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := open(t, dir)
			must(t, j.Put("t", "k", []byte("1")))
			disk := &faultyFile{logFile: j.file}
			j.file = disk
			broken := errors.New("input/output error")
			fault(disk, broken)
			if err := j.Put("t", "k", []byte("2")); !errors.Is(err, broken) {
				t.Fatalf("got %v", err)
			}
			disk.sync, disk.write, disk.truncate = nil, nil, nil
			if err := j.Put("t", "k", []byte("3")); !errors.Is(err, broken) {
				t.Fatalf("a later put: %v", err)
			}
			holds(t, j, "t", "k=1")
			must(t, j.Close())
			must(t, open(t, dir).Put("t", "k", []byte("4"))) // reopened, it accepts writes
		})
	}
}

// TestMain lets the test binary act as the daemon that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("STORE_TEST_WRITER"); dir != "" {
		writeUntilKilled(dir)
	}
	os.Exit(m.Run())
}

func writeUntilKilled(dir string) {
	j, err := OpenJournal(dir)
	if err != nil {
		panic(err)
	}
	for n := 1; ; n++ {
		// The values are large enough to cause compactions.
		if err := j.Put("t", "n", fmt.Appendf(nil, "%d %01000d", n, 0)); err != nil {
			panic(err)
		}
		fmt.Println(n)
	}
}

// After a daemon is killed, everything it acknowledged is on disk.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	must(t, err)
	for round := range 5 {
		child := exec.Command(self)
		child.Env = append(os.Environ(), "STORE_TEST_WRITER="+dir)
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		acks := bufio.NewScanner(out)
		last := 0
		for acks.Scan() {
			if _, err := fmt.Sscan(acks.Text(), &last); err != nil {
				t.Fatal(err)
			}
			if last == 100+round*97 {
				must(t, child.Process.Kill())
			}
		}
		if err := child.Wait(); err == nil {
			t.Fatal("the writer ended by itself")
		}
		j := open(t, dir)
		values, err := j.Load("t")
		must(t, err)
		found := 0
		if _, err := fmt.Sscan(string(values["n"]), &found); err != nil || found < last || found > last+1 {
			t.Fatalf("acknowledged %d, found %d %v", last, found, err)
		}
		must(t, j.Close())
	}
}
