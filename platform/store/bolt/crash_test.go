package bolt

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/config/kv"
)

// crashFile in the environment makes this test program the child that is killed.
const crashFile = "EDGESPAN_TEST_CRASH_FILE"

const crashWriters = 4

func TestMain(m *testing.M) {
	if path := os.Getenv(crashFile); path != "" {
		fmt.Fprintln(os.Stderr, writeForEver(path))
		os.Exit(1)
	}
	if path := os.Getenv(fullFile); path != "" {
		if err := fillUp(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// crashTxn is the n-th write of a writer: two keys that belong together, and a delete of what an older write created.
func crashTxn(writer, n int) kv.Txn {
	value := bytes.Repeat(fmt.Append(nil, n, " "), 1+n%700)
	return kv.Txn{Then: []kv.Op{
		kv.Put(kv.Key(fmt.Sprintf("w%d/one", writer)), value),
		kv.Put(kv.Key(fmt.Sprintf("w%d/two", writer)), value),
		kv.Put(kv.Key(fmt.Sprintf("w%d/log/%09d", writer, n)), nil),
		kv.Delete(kv.Key(fmt.Sprintf("w%d/log/%09d", writer, n-3))),
	}}
}

// writeForEver writes, compacts now and then, and prints what was acknowledged.
func writeForEver(path string) error {
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	fmt.Fprintln(os.Stdout, "open")
	faults := make(chan error)
	for w := range crashWriters {
		go func() {
			e, _, err := s.Get(context.Background(), kv.Key(fmt.Sprintf("w%d/one", w)))
			n := 0
			if err == nil && e.Exists() {
				_, err = fmt.Sscan(string(e.Value), &n)
			}
			for err == nil {
				n++
				var out kv.TxnResult
				if out, err = s.Commit(context.Background(), crashTxn(w, n)); err == nil {
					mu.Lock()
					fmt.Fprintln(os.Stdout, w, n)
					mu.Unlock()
				}
				if n%20 == 0 && err == nil {
					err = s.Compact(context.Background(), out.Revision)
				}
			}
			faults <- err
		}()
	}
	return <-faults
}

// TestKilledWhileItWrites kills a writer 200 times (20 with -short), at once or up to some milliseconds after its first
// acknowledgement: the file always opens, contains what was acknowledged, and no half transaction.
func TestKilledWhileItWrites(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	path := filepath.Join(t.TempDir(), "store")
	acknowledged := make([]int, crashWriters)
	id, total := "", 0
	for round := range rounds {
		total += killOnce(t, path, acknowledged, time.Duration(rand.IntN(12))*time.Millisecond)
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if id != "" && s.ID() != id {
			t.Fatalf("round %d: the store has another id", round)
		}
		id = s.ID()
		for w := range crashWriters {
			checkWriter(t, s, w, acknowledged)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("%d acknowledged writes", total)
}

// killOnce runs a child, kills it, and records what it reported as written.
func killOnce(t *testing.T, path string, acknowledged []int, after time.Duration) (lines int) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashFile+"="+path)
	var complaint bytes.Buffer
	child.Stderr = &complaint
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil || line != "open\n" {
		t.Fatalf("the child said %q %v: %s", line, err, complaint.String())
	}
	time.AfterFunc(after, func() { child.Process.Kill() })
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			break // an incomplete line does not count
		}
		var w, n int
		if _, err := fmt.Sscan(line, &w, &n); err != nil {
			t.Fatal(line, err)
		}
		acknowledged[w] = n
		lines++
	}
	child.Wait()
	if complaint.Len() > 0 {
		t.Fatal(complaint.String())
	}
	return lines
}

func checkWriter(t *testing.T, s *Store, w int, acknowledged []int) {
	t.Helper()
	page, err := s.List(context.Background(), kv.Prefix(fmt.Sprintf("w%d/", w)), kv.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if len(page.Entries) > 0 {
		fmt.Sscan(string(page.Entries[len(page.Entries)-1].Value), &n)
	}
	if n < acknowledged[w] {
		t.Errorf("writer %d: %d was acknowledged, the store holds %d", w, acknowledged[w], n)
	}
	var got, want []string
	for _, e := range page.Entries {
		got = append(got, fmt.Sprintf("%s=%s", e.Key, e.Value))
	}
	for i := max(n-2, 1); i <= n; i++ {
		want = append(want, fmt.Sprintf("w%d/log/%09d=", w, i))
	}
	if n > 0 {
		value := crashTxn(w, n).Then[0].Value
		want = append(want, fmt.Sprintf("w%d/one=%s", w, value), fmt.Sprintf("w%d/two=%s", w, value))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("writer %d is at %d, and holds half of a transaction:\n%.200s", w, n, got)
	}
}

// TestAPowerCutAtAnyPage tears a commit: any part of its pages reached the disk while its meta page did not, or all of
// them and half of the meta page. The store opens as before the commit or, with the complete meta page, as after it.
func TestAPowerCutAtAnyPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := opened(t, path, Options{UnsafeNoSync: true})
	page := os.Getpagesize()
	for n := 1; n <= 40; n++ {
		write := func(w int) []byte {
			if _, err := s.Commit(context.Background(), crashTxn(w, 10*n)); err != nil {
				t.Fatal(err)
			}
			return fileOf(t, path)
		}
		before, after := write(0), write(1)
		cut := bytes.Clone(after)
		copy(cut, before[:min(len(before), len(cut))])
		meta := -1
		for at := 0; at < len(after); at += page {
			changed := at >= len(before) || !bytes.Equal(before[at:at+page], after[at:at+page])
			switch {
			case changed && at < 2*page:
				meta = at
			case changed && rand.IntN(2) == 0:
				copy(cut[at:at+page], after[at:at+page])
			}
		}
		if meta < 0 {
			t.Fatal("the commit wrote no meta page")
		}
		check := func(what string, content []byte, want int) {
			t.Helper()
			if got := reopened(t, content); got != want {
				t.Fatalf("commit %d, %s: the store holds %d, not %d", n, what, got, want)
			}
		}
		check("a part of its pages", cut, 10*(n-1))
		torn := bytes.Clone(after)
		copy(torn[meta:meta+page], before[meta:meta+page])
		check("all pages but the last", torn, 10*(n-1))
		copy(torn[meta:meta+32], after[meta:meta+32]) // up to the root; the checksum is behind it
		check("the last one torn", torn, 10*(n-1))
		check("all of it", after, 10*n)
	}
}

func fileOf(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// reopened returns w1's last write in a store with this content.
func reopened(t *testing.T, content []byte) int {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cut")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, Options{UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	defer s.Close()
	n := 0
	e, _, err := s.Get(context.Background(), "w1/one")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Sscan(string(e.Value), &n)
	if whole := (e.Exists() && !bytes.Equal(e.Value, crashTxn(1, n).Then[0].Value)); whole {
		t.Fatalf("a torn value: %.80q", e.Value)
	}
	// The store accepts writes.
	if _, err := s.Commit(context.Background(), crashTxn(1, n+1)); err != nil {
		t.Fatal(err)
	}
	return n
}
