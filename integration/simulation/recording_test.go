package simulation

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/actors/node/cores"
	"edgespan/pubsub/tape"
)

// segmentSize is that of the segments of a recording in memory, in octets.
const segmentSize = 300 << 10

// memory is a disk for recordings.
type memory struct {
	mu       sync.Mutex
	segments []*bytes.Buffer
}

func (m *memory) Append(lines []byte) (full bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.segments[len(m.segments)-1]
	last.Write(lines)
	return last.Len() > segmentSize, nil
}

func (m *memory) Next() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.segments = append(m.segments, &bytes.Buffer{})
	return nil
}

// record returns a recorder of a process, nil if none is recorded.
func (w *town) record(l *life) *tape.Recorder {
	if w.tapes == nil {
		return nil
	}
	m := &memory{segments: []*bytes.Buffer{{}}}
	*w.tapes = append(*w.tapes, m)
	r := tape.NewRecorder(cores.Codec(), tape.Head{Version: "test", Machine: fmt.Sprint(w.machine), Start: w.boot})
	go r.Run(l.ctx.Done(), m, func(error) {})
	return r
}

// replayed is what a replay of a recording has found.
type replayed struct {
	steps, kinds, lost int
	wrong              []string
}

// replay replays a recording from one of its segments on.
func replay(t *testing.T, m *memory, from int) (out replayed) {
	p := tape.NewPlayer(cores.Codec(), cores.Kinds())
	kinds := map[string]bool{}
	begun := map[string]bool{}
	for i, segment := range m.segments[from:] {
		_, err := p.Play(bytes.NewReader(segment.Bytes()), func(x tape.Moment) bool {
			out.lost += x.Lost
			if x.Core == "" {
				return true
			}
			of := x.Core + " " + x.Of
			switch {
			case x.Skip != "" && (begun[of] || from == 0):
				out.wrong = append(out.wrong, fmt.Sprintf("segment %d, step %d of %s: %s", from+i, x.N, of, x.Skip))
			case x.Skip != "":
				return true
			case x.Differs:
				out.wrong = append(out.wrong, fmt.Sprintf("segment %d, step %d of %s decides otherwise: %s", from+i, x.N,
					of, p.Difference(x)))
			case x.State != "":
				out.wrong = append(out.wrong, fmt.Sprintf("segment %d, step %d of %s has another state: %s", from+i, x.N, of,
					x.State))
			}
			out.steps++
			begun[of], kinds[x.Core] = true, true
			return true
		})
		if err != nil {
			t.Errorf("segment %d: %v", from+i, err)
		}
	}
	if len(p.Unknown()) > 0 {
		t.Errorf("fields that are not known: %q", p.Unknown())
	}
	out.kinds = len(kinds)
	return out
}

// Whatever happens to a node, its recording replays to the same states and effects, from later segments on, too.
func TestRecordingsReplay(t *testing.T) {
	for i := range uint64(max(4, *plans/4)) {
		t.Run(fmt.Sprint(*seed+i), func(t *testing.T) {
			t.Parallel()
			var tapes []*memory
			began, real := time.Now(), time.Duration(0)
			synctest.Test(t, func(*testing.T) {
				start := time.Now()
				w := newTown(func(w *town) { w.tapes = &tapes })
				for _, s := range draw(*seed+i, *steps, ofNodes().verbs, ofNodes().gives) {
					time.Sleep(time.Until(start.Add(s.at)))
					if faults := w.happens(s); len(faults) > 0 {
						break
					}
				}
				w.ends(true)
				real = time.Since(start)
			})
			ran := time.Since(began)
			began = time.Now()
			var all replayed
			segments, size := 0, 0
			for _, m := range tapes {
				one := replay(t, m, 0)
				all.steps, all.kinds = all.steps+one.steps, max(all.kinds, one.kinds)
				all.wrong = append(all.wrong, one.wrong...)
				segments += len(m.segments)
				for _, s := range m.segments {
					size += s.Len()
				}
			}
			t.Logf("%d processes, %d segments, %d octets, %d steps, %v simulated in %v, replayed in %v", len(tapes),
				segments, size, all.steps, real, ran, time.Since(began))
			if all.steps < 100 || all.kinds < 6 {
				t.Errorf("only %d steps of %d kinds of cores", all.steps, all.kinds)
			}
			wrong := all.wrong
			for _, m := range tapes {
				for from := 1; from < len(m.segments); from += max(3, len(m.segments)/4) {
					wrong = append(wrong, replay(t, m, from).wrong...)
				}
			}
			if len(wrong) > 0 {
				t.Errorf("%d faults:\n%s", len(wrong), strings.Join(wrong[:min(5, len(wrong))], "\n"))
			}
		})
	}
}
