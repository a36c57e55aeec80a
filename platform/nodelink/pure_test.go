package nodelink

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	pb "edgespan/platform/nodelink/linkpb"
)

// The writer runs only while there is something to write; only the newest config waits.
func TestOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var written []uint64
		o := newOutbox(time.Now, func(m proto.Message) error {
			<-gate
			written = append(written, m.(*pb.Down).GetAsk().GetId())
			return nil
		})
		ask := func(id uint64, c class) {
			t.Helper()
			if err := o.put(&pb.Down{Kind: &pb.Down_Ask{Ask: &pb.Ask{Id: id}}}, c); err != nil {
				t.Error(err)
			}
		}
		ask(1, desired) // is being written and stays
		synctest.Wait()
		ask(2, desired)
		ask(3, lasting)
		ask(4, state)
		ask(5, desired)
		ask(6, state)
		time.Sleep(time.Minute)
		if d := o.blockedFor(time.Now()); d != time.Minute {
			t.Errorf("stalled for %v", d)
		}
		close(gate)
		<-o.flushed()
		if want := []uint64{1, 3, 5, 6}; !reflect.DeepEqual(written, want) {
			t.Errorf("wrote %v, want %v", written, want)
		}
		if d := o.blockedFor(time.Now()); d != 0 || o.octets != 0 {
			t.Errorf("idle, stalled for %v with %d octets", d, o.octets)
		}
		ask(7, lasting)
		<-o.flushed()
		o.close(ErrClosed)
		if err := o.put(&pb.Down{}, lasting); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestOutboxIsBoundedInOctets(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	o := newOutbox(time.Now, func(proto.Message) error { <-block; return nil })
	big := &pb.Down{Kind: &pb.Down_Ask{Ask: &pb.Ask{Data: make([]byte, 15<<20)}}}
	var err error
	for range 4 {
		err = o.put(big, lasting)
	}
	if !errors.Is(err, ErrFull) {
		t.Errorf("60 MiB are waiting: %v", err)
	}
}

func TestOutboxEndsWithTheFirstError(t *testing.T) {
	o := newOutbox(time.Now, func(proto.Message) error { return errors.New("gone") })
	if err := o.put(&pb.Down{}, lasting); err != nil {
		t.Fatal(err)
	}
	<-o.flushed()
	if err := o.put(&pb.Down{}, lasting); !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "gone") {
		t.Errorf("%v", err)
	}
}

func pieceOf(t *testing.T, m *pb.Chunk) *pb.Chunk {
	t.Helper()
	wire, err := proto.Marshal(m)
	if err != nil || len(wire) >= wireLimit {
		t.Fatalf("%d octets on the wire: %v", len(wire), err)
	}
	out := &pb.Chunk{}
	if err := proto.Unmarshal(wire, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPiecesOfEverySize(t *testing.T) {
	for _, size := range []int{1, pieceSize - 1, pieceSize, pieceSize + 1, 3*pieceSize + 7} {
		whole := bytes.Repeat([]byte{7}, size)
		j := joiner{limit: pushLimit, shared: newBudget(pushLimit)}
		cs := split(whole)
		for i, c := range cs {
			got, err := j.add(pieceOf(t, c))
			if err != nil || (got != nil) != (i == len(cs)-1) {
				t.Fatalf("%d octets, piece %d: %v", size, i, err)
			}
			if got != nil && !bytes.Equal(got, whole) {
				t.Errorf("%d octets: another message", size)
			}
		}
		if j.shared.left.Load() != pushLimit || j.open {
			t.Errorf("%d octets: the budget lacks some", size)
		}
	}
}

func TestTheBudgetOfUnfinishedMessages(t *testing.T) {
	shared := newBudget(3 * pieceSize)
	pieces := split(make([]byte, 3*pieceSize))
	a, b := joiner{limit: pushLimit, shared: shared}, joiner{limit: pushLimit, shared: shared}
	for _, c := range []struct {
		of    *joiner
		piece int
		want  error
	}{
		{&a, 0, nil}, {&b, 0, nil}, // each has announced all that there is, and sent a third
		{&a, 1, nil}, {&b, 1, errBusy},
	} {
		if _, err := c.of.add(pieces[c.piece]); !errors.Is(err, c.want) {
			t.Errorf("piece %d: %v, want %v", c.piece, err, c.want)
		}
	}
	b.close()
	if whole, err := a.add(pieces[2]); err != nil || len(whole) != 3*pieceSize || shared.left.Load() != 3*pieceSize {
		t.Errorf("%d octets, %d left: %v", len(whole), shared.left.Load(), err)
	}
}

// FuzzPieces feeds a joiner any pieces: it never holds more than it may, never panics, and
// gives its share back.
func FuzzPieces(f *testing.F) {
	wire, _ := proto.Marshal(split([]byte("abc"))[0])
	f.Add(wire, wire)
	f.Fuzz(func(t *testing.T, one, two []byte) {
		shared := newBudget(1000)
		j := joiner{limit: 1000, shared: shared}
		for _, wire := range [][]byte{one, two} {
			c := &pb.Chunk{}
			if proto.Unmarshal(wire, c) != nil {
				return
			}
			if whole, err := j.add(c); err == nil && len(whole) > 1000 || len(j.data) > 1000 {
				t.Error("too much")
			}
		}
		j.close()
		if shared.left.Load() != 1000 {
			t.Errorf("%d left", shared.left.Load())
		}
	})
}

// FuzzUp makes words of any octets that are a message.
func FuzzUp(f *testing.F) {
	for _, m := range []nodeproto.FromNode{nodeproto.Hello{Node: "n"},
		nodeproto.Report{Health: []nodeproto.HealthReport{{}}},
		nodeproto.Result{}, nodeproto.Answer{}} {
		wire, _ := proto.Marshal(toWireUp(m))
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		m := &pb.Up{}
		if proto.Unmarshal(wire, m) != nil {
			return
		}
		word := fromWireUp(m)
		if word == nil {
			return
		}
		if again := fromWireUp(toWireUp(word)); !reflect.DeepEqual(again, word) {
			t.Errorf("%+v became %+v", word, again)
		}
	})
}

// FuzzDown does the same for a node.
func FuzzDown(f *testing.F) {
	for _, m := range []nodeproto.FromController{nodeproto.Push{Document: []byte("{}")}, nodeproto.Number{},
		nodeproto.Request{Kind: "x"}, nodeproto.Managed{On: true}, nodeproto.Relay{Kind: "x", Credit: 6}} {
		wire, _ := proto.Marshal(toWireDown(m))
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		m := &pb.Down{}
		if proto.Unmarshal(wire, m) != nil {
			return
		}
		if word := fromWireDown(m); word != nil {
			if again := fromWireDown(toWireDown(word)); !reflect.DeepEqual(again, word) {
				t.Errorf("%+v became %+v", word, again)
			}
		}
	})
}

func draw[T any](t *rapid.T, name string, f func() T) []T {
	var out []T
	for range rapid.IntRange(0, 3).Draw(t, name) {
		out = append(out, f())
	}
	return out
}

// Every word of a node survives the wire; texts that are no UTF-8 become such that are.
func TestWordsSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		str := func() string { return rapid.String().Draw(t, "s") }
		gen := func() nodeproto.Generation {
			return nodeproto.Generation{Authority: str(), Counter: rapid.Uint64().Draw(t, "n")}
		}
		flag := func() bool { return rapid.Bool().Draw(t, "b") }
		ms := func() int64 { return rapid.Int64Range(0, 1<<40).Draw(t, "ms") }
		at := func() time.Time {
			if n := ms(); n > 0 {
				return time.UnixMilli(n).UTC()
			}
			return time.Time{}
		}
		r := nodeproto.Report{
			MD5: str(), Generation: gen(), Software: str(), Firmware: str(), Board: str(), Source: str(), Restores: gen(),
			Settled: flag(), Fallback: flag(),
			Health: draw(t, "health",
				func() nodeproto.HealthReport { return nodeproto.HealthReport{Name: str(), Good: flag(), Detail: str()} }),
			Parameters: draw(t, "parameters", func() nodeproto.ParameterReport {
				return nodeproto.ParameterReport{ID: str(), Kind: str(), State: str(), Detail: str(), Generation: gen(),
					Since:    at(),
					Attempts: rapid.IntRange(0, 1<<31-1).Draw(t, "n"), NextTry: at()}
			}),
			Peer: str(),
			Ports: draw(t, "ports", func() nodeproto.Port {
				return nodeproto.Port{Label: str(), Addresses: draw(t, "addresses", str),
					MTU: rapid.IntRange(0, 65536).Draw(t, "mtu")}
			}),
		}
		if flag() {
			reported := flag()
			r.Managed = &reported
			r.Held = &nodeproto.Held{By: str(), Since: time.UnixMilli(ms()).UTC()}
			r.Pending = &nodeproto.PendingReport{Generation: gen(), Remaining: time.Duration(ms()) * time.Millisecond,
				Settled: flag(),
				Worse:   draw(t, "worse", str)}
		}
		s := nodeproto.Result{
			Attempt: rapid.Uint64().Draw(t, "attempt"), Generation: gen(), MD5: str(),
			Outcome: nodeproto.PushOutcome(rapid.IntRange(0, 5).Draw(t, "outcome")), Restored: gen(),
			Faults: draw(t, "faults",
				func() config.Fault { return config.Fault{Path: []string{str()}, Problem: str(), Expectation: str()} }),
			Actions: draw(t, "actions",
				func() nodeproto.Action { return nodeproto.Action{Name: str(), State: str(), Detail: str()} }),
		}
		h := nodeproto.Hello{Node: str(), Name: str(), Software: str(), Firmware: str(), Board: str(), MD5: str(),
			Generation: gen(), Capabilities: []string{str()}}
		for _, m := range []nodeproto.FromNode{r, s, h,
			nodeproto.Probed{Number: 7, Generation: gen(), MD5: str(), Peer: str(), Worse: draw(t, "worse", str)},
			nodeproto.Answer{ID: 1, Data: []byte(str() + "x"), Error: str()}} {
			wire, err := proto.Marshal(toWireUp(m))
			if err != nil {
				t.Fatal(err)
			}
			back := &pb.Up{}
			if err := proto.Unmarshal(wire, back); err != nil {
				t.Fatal(err)
			}
			if got := fromWireUp(back); !reflect.DeepEqual(got, m) {
				t.Fatalf("%+v became %+v", m, got)
			}
		}
	})
	if _, err := proto.Marshal(toWireUp(nodeproto.Answer{Error: "\xff"})); err != nil {
		t.Errorf("a text that is no UTF-8: %v", err)
	}
}

// A node comes up with a clock that is late, and gets the right time while its stream lasts: it looks again, and
// renews.
func TestARenewalThatIsDueByAClockThatWasSetIsSeen(t *testing.T) {
	r := newRig(t)
	cred := r.joined(t)
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{}, 100)
		out := newOutbox(time.Now, func(m proto.Message) error {
			if m.(*pb.Up).GetSigningRequest() != nil {
				asked <- struct{}{}
			}
			return nil
		})
		var now atomic.Pointer[time.Time]
		set := func(t time.Time) { now.Store(&t) }
		set(r.clock.now())
		s := &session{out: out, renew: make(chan struct{}), ended: make(chan struct{}), client: &Client{opts: ClientOptions{
			Credentials: cred, Now: func() time.Time { return *now.Load() }, Random: func() float64 { return 0 },
			Log: zap.NewNop(),
		}}}
		go s.wait(t.Context())
		synctest.Wait()
		set(cred.RenewAt(0).Add(time.Hour))
		time.Sleep(renewalCheckEvery + time.Second)
		synctest.Wait()
		if len(asked) != 1 {
			t.Errorf("%d requests an hour after the clock was set", len(asked))
		}
		close(s.ended)
	})
}
