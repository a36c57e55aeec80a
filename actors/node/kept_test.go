package node

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"edgespan/actors/node/cores"
	"edgespan/pubsub/tape"
)

var recordReplay = flag.String("record-replay", "",
	"the release whose recording is written to testdata/replay/NAME.tape.gz (make replay-testdata)")

const (
	replayDir  = "testdata/replay"
	replayTape = ".tape.gz"
	// Limits of a kept recording: it is in the repository for ever.
	maxKept = 96 << 10
	minKept = 500 // steps
)

// TestKeptRecordingsReplay replays what earlier releases have recorded. It fails if this version does not read a field
// or type of them, or decides otherwise.
//
// A change of decisions that is wanted is declared by recording anew, with make replay-testdata RELEASE=…, and by
// deleting the recordings that differ; the commit says which decisions change and why. So is a field or type that is
// renamed or removed: the recordings of users lose it, too. What differs is shown by
//
//	edgespan replay actors/node/testdata/replay/NAME.tape.gz
func TestKeptRecordingsReplay(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(replayDir, "*"+replayTape))
	if err != nil || len(names) == 0 {
		t.Fatalf("no recording is kept: %v", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), replayTape), func(t *testing.T) {
			text := unpacked(t, name)
			for _, fault := range faultsOfReplay(text) {
				t.Error(fault)
			}
			for what, change := range map[string][3]string{
				"a field": {`"manager.Applied":{"`, `"manager.Applied":{"Gone":1,"`,
					"manager.Applied.Gone is no longer read"},
				"a type":     {`"manager.OpStarted"`, `"manager.OpBegun"`, "manager.OpBegun is no type of this release"},
				"a decision": {`"manager.PublishNetwork":{"`, `"manager.PublishNetwork":{"Gone":1,"`, "decides otherwise: "},
			} {
				other := bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1)
				if got := strings.Join(faultsOfReplay(other), "\n"); !strings.Contains(got, change[2]) {
					t.Errorf("%s that was lost is not found: %q", what, got)
				}
			}
		})
	}
}

func unpacked(t *testing.T, name string) []byte {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// faultsOfReplay replays a recording that must have steps of all kinds of cores.
func faultsOfReplay(text []byte) (out []string) {
	fault := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	p, kinds, steps := tape.NewPlayer(cores.Codec(), cores.Kinds()), map[string]bool{}, 0
	_, err := p.Play(bytes.NewReader(text), func(m tape.Moment) bool {
		if m.Lost > 0 || m.End != "" {
			fault("it is not whole: %d steps are lost, %s", m.Lost, m.End)
		}
		if m.Core == "" {
			return true
		}
		steps++
		kinds[m.Core] = true
		step := fmt.Sprintf("step %d of %s %s, %.80s", m.N, m.Core, m.Of, m.Event)
		switch {
		case m.Skip != "":
			fault("%s: is not replayed: %s", step, m.Skip)
		case m.Differs:
			fault("%s: decides otherwise: %s%s", step, p.Difference(m), m.Panics)
		case m.Panics != "":
			fault("%s: panics: %s", step, m.Panics)
		case m.State != "":
			fault("%s: has another state: %s", step, m.State)
		}
		return true
	})
	if err != nil {
		fault("%v", err)
	}
	for _, name := range p.Unknown() {
		fault("%s is no longer read", name)
	}
	if all := cores.Kinds(); len(kinds) != len(all) || steps < minKept {
		fault("it has %d steps, of %v; want %d of %v", steps, slices.Sorted(maps.Keys(kinds)), minKept,
			slices.Sorted(maps.Keys(all)))
	}
	return out
}

// memTape is a disk for a recording.
type memTape struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (m *memTape) Append(lines []byte) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text.Write(lines)
	return false, nil
}

func (m *memTape) Next() error { return errors.New("one segment is enough") }

// TestARecordingIsKept records a node that has everything, and whose host gives it trouble. With -record-replay it
// keeps the recording.
func TestARecordingIsKept(t *testing.T) {
	var disk memTape
	onHost(t, func(r *rig) {
		var ended []chan struct{}
		var stop func()
		r.change = func(o *Options) {
			done, over := make(chan struct{}), make(chan struct{})
			o.Tape = tape.NewRecorder(cores.Codec(), tape.Head{Version: *recordReplay, Machine: o.Machine, Start: o.Boot})
			go func() {
				defer close(over)
				o.Tape.Run(done, &disk, func(err error) { t.Error(err) })
			}()
			stop, ended = func() { close(done) }, append(ended, over)
		}
		r.start()
		defer func() { // after a Fatal too: the bubble ends only then
			r.stop()
			r.node = nil
			stop()
			for _, over := range ended {
				<-over
			}
		}()
		r.eventful(func() {
			r.stop()
			stop()
			r.start()
		})
	})
	text := disk.text.Bytes()
	for _, secret := range []string{"canary", "6MGc2mLBG0Ygjm5lQEXKqEKT9L2zR3mNq4rQ8mDdVmA="} {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s is in it", secret)
		}
	}
	for _, fault := range faultsOfReplay(text) {
		t.Error(fault)
	}
	if *recordReplay != "" && !t.Failed() {
		keep(t, text)
	}
}

// keep keeps a recording for TestKeptRecordingsReplay of later releases.
func keep(t *testing.T, text []byte) {
	t.Helper()
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := zip.Write(text); err != nil || zip.Close() != nil {
		t.Fatal(err)
	}
	if packed.Len() > maxKept {
		t.Fatalf("it has %d octets, of which %d may be kept", packed.Len(), maxKept)
	}
	if err := os.MkdirAll(replayDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(replayDir, *recordReplay+replayTape), packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
