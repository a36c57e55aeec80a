package history

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/kv"
	"edgespan/platform/store/bolt"
)

// crashFile in the environment makes this test program the child that is killed.
const crashFile = "EDGESPAN_TEST_CRASH_FILE"

var crashWriters = []string{"ann", "bob"}

// reach is the maximum number of revisions that a rollback of the child goes back.
const reach = 5

func TestMain(m *testing.M) {
	if path := os.Getenv(crashFile); path != "" {
		fmt.Fprintln(os.Stderr, writeForEver(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// crashLayers returns the n-th write of a writer, if that is no rollback: one layer, several, a delete, or so many that
// they take more than one transaction.
func crashLayers(author string, n int) map[Layer]config.Object {
	doc := config.Object{"by": author, "n": int64(n), "pad": strings.Repeat("x", n%700)}
	own := Layer{Node, fmt.Sprint(author, n%7)}
	switch {
	case n%11 == 0:
		return many(150, fmt.Sprint(author, n))
	case n%5 == 0:
		return map[Layer]config.Object{own: nil, {Kind: Network}: doc}
	case n%3 == 0:
		return map[Layer]config.Object{own: doc, {Auto, own.Name}: doc, {Kind: Metadata}: doc}
	}
	return map[Layer]config.Object{own: doc}
}

// crashChange returns a writer's n-th write on a state. Its message has what a model needs to know.
func crashChange(s State, author string, n int) (Change, error) {
	c := Change{Layers: crashLayers(author, n)}
	to := s.Number - min(s.Number, reach)
	if n%4 == 0 {
		var err error
		if c, err = s.Restore(to); err != nil {
			return c, err
		}
	}
	c.Author, c.Time, c.Message = author, start.Add(time.Duration(s.Number)*time.Second), fmt.Sprint(n)
	return c, nil
}

// modelOf returns the state after the record's write, given the states before it.
func modelOf(states map[uint64]map[Layer]config.Object, r RevisionRecord) (map[Layer]config.Object, error) {
	n := 0
	if _, err := fmt.Sscan(r.Message, &n); err != nil {
		return nil, fmt.Errorf("%s: %w", r, err)
	}
	if n%4 == 0 {
		return maps.Clone(states[r.Parent-min(r.Parent, reach)]), nil
	}
	next := maps.Clone(states[r.Parent])
	for l, d := range crashLayers(r.Author, n) {
		put(next, l, d)
	}
	return next, nil
}

// writeForEver sweeps what the previous process left, writes, and prints the acknowledged revisions.
func writeForEver(path string) error {
	opened, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		return err
	}
	s := &store{backend: real{opened}}
	if err := sweepAll(s); err != nil {
		return err
	}
	var mu sync.Mutex
	fmt.Fprintln(os.Stdout, "open")
	faults := make(chan error)
	for _, author := range crashWriters {
		go func() {
			n, err := lastOf(s, author)
			for err == nil {
				n++
				var number uint64
				if number, err = writeOnce(&store{backend: real{opened}}, author, n); number > 0 {
					mu.Lock()
					fmt.Fprintln(os.Stdout, author, n, number)
					mu.Unlock()
				}
			}
			faults <- err
		}()
	}
	return <-faults
}

// sweepAll does the same as store.sweep, outside a test.
func sweepAll(s *store) error {
	sweep, err := NewSweep(s, start.AddDate(1, 0, 0))
	var at kv.Revision
	for i := 0; err == nil && i < len(sweep.Parts); i++ {
		var outcome kv.TxnResult
		if outcome, err = s.Commit(sweep.Txn(i, at)); err == nil && !outcome.Succeeded {
			err = errMoved
		}
		at = outcome.Revision
	}
	return err
}

// lastOf returns the number of an author's newest write.
func lastOf(s *store, author string) (n int, err error) {
	state, err := Head(s)
	if err != nil {
		return 0, err
	}
	records, err := state.Log(0)
	if err != nil {
		return 0, err
	}
	for _, r := range records {
		if r.Author == author {
			_, err := fmt.Sscan(r.Message, &n)
			return n, err
		}
	}
	return 0, nil
}

// writeOnce retries a write until it does not conflict. The number is 0 if a rollback would change nothing.
func writeOnce(s *store, author string, n int) (number uint64, err error) {
	for {
		state, err := Head(s)
		if err != nil {
			return 0, err
		}
		c, err := crashChange(state, author, n)
		if err != nil {
			return 0, err
		}
		p, err := state.Plan(c)
		if err != nil {
			return 0, err
		}
		switch err := s.runPlan(p, len(p.Txns)); {
		case errors.Is(err, errMoved):
		case err != nil:
			return 0, err
		case len(p.Txns) == 0:
			return 0, nil
		default:
			return p.Record.Number, nil
		}
	}
}

// A process that writes layers is killed 120 times, at once or up to some milliseconds after it began: each
// acknowledged revision is there, each revision that is there is complete, and nothing is left behind that the next
// process does not sweep.
func TestKilledWhileItWritesLayers(t *testing.T) {
	if testing.Short() {
		t.Skip("120 processes")
	}
	path := filepath.Join(t.TempDir(), "store")
	states := map[uint64]map[Layer]config.Object{0: {}}
	checked, acknowledged, left := uint64(0), 0, 0
	for round := range 120 {
		said := killOnce(t, path, time.Duration(rand.IntN(40))*time.Millisecond)
		acknowledged += len(said)
		opened, err := bolt.Open(path, bolt.Options{})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		s := &store{backend: real{opened}}
		head := s.head(t)
		for n := checked + 1; n <= head.Number; n++ {
			checkRevision(t, s, states, n, said)
			delete(states, n-min(n, 2*reach))
			states[0] = map[Layer]config.Object{} // a rollback to the first ones ends there
		}
		for n, by := range said {
			if n <= checked || n > head.Number {
				t.Errorf("revision %d by %s was acknowledged; there are %d, %d before", n, by, head.Number, checked)
			}
		}
		checked = head.Number
		page, err := s.List(folderSets, kv.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		left += len(page.Entries)
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("%d revisions, %d of them acknowledged; %d parts of large writes were cut off", checked, acknowledged, left)
	checkObjects(t, path)
}

// checkRevision checks one revision against its record.
func checkRevision(t *testing.T, s *store, states map[uint64]map[Layer]config.Object, n uint64,
	said map[uint64]string) {
	t.Helper()
	r := ok(ReadRecord(s, n))(t)
	if by := r.Author + " " + r.Message; said[n] != "" && said[n] != by {
		t.Fatalf("revision %d is write %s; write %s was acknowledged", n, by, said[n])
	}
	if r.Number != n || r.Parent != n-1 {
		t.Fatalf("revision %d: its record is %v, after %d", n, r, r.Parent)
	}
	want := ok(modelOf(states, r))(t)
	got := map[Layer]config.Object{}
	for _, v := range ok(ok(At(s, n))(t).AllLayers())(t) {
		got[v.Layer] = v.Document
	}
	if !same(got, want) {
		t.Fatalf("%s left %d layers, not the %d that it wrote", r, len(got), len(want))
	}
	states[n] = want
}

// checkObjects sweeps, and checks that only objects of some revision are left.
func checkObjects(t *testing.T, path string) {
	t.Helper()
	opened, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	s := &store{backend: real{opened}}
	if err := sweepAll(s); err != nil {
		t.Fatal(err)
	}
	kept := ok(s.head(t).reachableObjects())(t)
	equal(t, "objects", s.objectCount(t), len(kept))
}

// killOnce runs a child, kills it, and returns the writes that it reported as done, by their revisions.
func killOnce(t *testing.T, path string, after time.Duration) map[uint64]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0])
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
	said := map[uint64]string{}
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			break // an incomplete line does not count
		}
		var author string
		var n, number uint64
		if _, err := fmt.Sscan(line, &author, &n, &number); err != nil {
			t.Fatal(line, err)
		}
		said[number] = fmt.Sprint(author, " ", n)
	}
	child.Wait()
	if complaint.Len() > 0 {
		t.Fatal(complaint.String())
	}
	return said
}
