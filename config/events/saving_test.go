package events

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// file is a file in memory, written as a Saving says.
type file struct {
	t    *testing.T
	text []byte
	l    *Log
	s    *Saving
}

func newFile(t *testing.T, limits Limits, limit int) *file {
	return &file{t: t, l: NewLog(limits, 1), s: NewSaving(limit)}
}

func (f *file) add(e Event) { f.s.Note(f.l.Add(e)) }

// save does what is due; share is how much of it gets to the file, in percent.
func (f *file) save(all bool, share int) (o Outcome, lost int, wrote bool) {
	w, due := f.s.Next(f.l, all)
	if !due {
		return AsBefore, 0, false
	}
	if _, twice := f.s.Next(f.l, true); twice {
		f.t.Fatal("two writes at once")
	}
	switch {
	case share == 100 && w.Replace:
		f.text = w.Lines
	case !w.Replace: // replacing is all or nothing
		f.text = append(f.text, w.Lines[:len(w.Lines)*share/100]...)
	}
	o, lost = f.s.Done(share == 100)
	return o, lost, true
}

func TestAFileHasWhatTheLogHas(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		limits := Limits{Events: 40, Bytes: 6 << 10}
		f := newFile(t, limits, 2*limits.Bytes)
		for step := range 400 {
			e := at(step, fmt.Sprint("ni/", random.IntN(5)), fmt.Sprint(random.IntN(6)))
			e.Error = strings.Repeat("e", random.IntN(200))
			if f.add(e); random.IntN(3) == 0 {
				f.save(false, []int{100, 100, 100, 0, 50}[random.IntN(5)])
			}
			if len(f.text) > 2*limits.Bytes {
				t.Fatalf("the file has %d bytes", len(f.text))
			}
		}
		f.save(true, 100)
		f.save(true, 100)
		list, _ := Decode(f.text)
		in := map[uint64]Event{}
		for _, e := range list {
			in[e.Seq] = e
		}
		for _, e := range f.l.Events() {
			if !reflect.DeepEqual(in[e.Seq], e) {
				t.Fatalf("in the file: %+v\nin the log: %+v", in[e.Seq], e)
			}
		}
		next := NewLog(limits, FirstSeq(1))
		next.Restore(list)
		if n := len(next.Events()); n > limits.Events {
			t.Fatalf("restored %d", n)
		}
	}
}

// However a write is cut, what is read are events that were written, whole, and no fewer than before the write.
func TestATornFile(t *testing.T) {
	f := newFile(t, Limits{Events: 100, Bytes: 1 << 20}, 2<<20)
	f.add(at(0, "a", "1"))
	f.add(at(0, "b", "1"))
	f.save(false, 100)
	before := len(f.text)
	f.add(at(1, "a", "1"))
	f.add(at(2, "c", "1"))
	f.save(false, 100)
	written := map[string]bool{}
	for _, text := range [][]byte{f.text[:before], f.text} {
		list, _ := Decode(text)
		for _, e := range list {
			written[fmt.Sprintf("%+v", e)] = true
		}
	}
	check := func(name string, text []byte, least int) {
		list, damaged := Decode(text)
		for _, e := range list {
			if !written[fmt.Sprintf("%+v", e)] {
				t.Fatalf("%s: %+v was never written", name, e)
			}
		}
		if len(list) < least || len(text) > 0 && text[len(text)-1] != '\n' && damaged == 0 {
			t.Fatalf("%s: %d events, %d damaged", name, len(list), damaged)
		}
	}
	for n := before; n <= len(f.text); n++ {
		check(fmt.Sprint("cut at ", n), f.text[:n], 2)
		zeros := append(bytes.Clone(f.text[:n]), make([]byte, len(f.text)-n)...)
		check(fmt.Sprint("zeros from ", n), zeros, 2)
	}
	for n := range f.text {
		flipped := bytes.Clone(f.text)
		flipped[n] ^= 1
		check(fmt.Sprint("a bit of ", n), flipped, 1)
	}
	// The next start replaces what is damaged at its next event, and not before.
	list, damaged := Decode(f.text[:len(f.text)-3])
	next := newFile(t, Limits{Events: 100, Bytes: 1 << 20}, 2<<20)
	next.text = f.text[:len(f.text)-3]
	next.l.Restore(list)
	if next.s.Read(len(next.text), list, damaged); next.s.Due() {
		t.Error("a start alone writes")
	}
	next.add(at(9, "d", "1"))
	next.save(false, 100)
	if got, damaged := Decode(next.text); damaged != 0 || texts(got) != "a:1*2 b:1 d:1" {
		t.Errorf("%s, %d damaged", texts(got), damaged)
	}
}

func TestWhatRepeatsIsSeldomWritten(t *testing.T) {
	f := newFile(t, Limits{Events: 100, Bytes: 1 << 20}, 2<<20)
	writes := 0
	for i := range 1000 {
		f.add(at(i, "a", []string{"up", "down"}[i%2]))
		if _, _, wrote := f.save(false, 100); wrote {
			writes++
		}
	}
	if writes > 20 {
		t.Errorf("%d writes", writes)
	}
	f.save(true, 100)
	if list, _ := Decode(f.text); texts(list) != "a:up*500 a:down*500" {
		t.Errorf("%s", texts(list))
	}
}

func TestWhatADiskThatRefusesLoses(t *testing.T) {
	f := newFile(t, Limits{Events: 10, Bytes: 1 << 20}, 2<<20)
	f.add(at(0, "a", "0"))
	if o, _, _ := f.save(false, 0); o != Failing {
		t.Errorf("the first failure is %v", o)
	}
	for i := range 15 { // six of these sixteen leave the log before they are on the disk
		f.add(at(i, "a", fmt.Sprint(i+1)))
		if o, _, _ := f.save(false, 0); o != AsBefore {
			t.Errorf("another failure is %v", o)
		}
	}
	if o, lost, _ := f.save(false, 100); o != Works || lost != 6 {
		t.Errorf("%v, %d lost", o, lost)
	}
	if list, damaged := Decode(f.text); damaged > 0 || len(list) != 10 {
		t.Errorf("%d events, %d damaged", len(list), damaged)
	}
	if f.s.IsFailing() || f.s.Due() || f.s.Busy() {
		t.Error("something is left to do")
	}
	f.add(at(99, "a", "99"))
	if o, lost, _ := f.save(false, 100); o != AsBefore || lost != 0 {
		t.Errorf("%v, %d lost", o, lost)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("00000000 {}\n"))
	f.Add(append(Encode(at(0, "a", "1")), Encode(Event{Seq: 3, Time: noon, Kind: State, Object: "b"})...))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, _ := Decode(text)
		for i, e := range list {
			if e.Seq == 0 || i > 0 && list[i-1].Seq >= e.Seq {
				t.Fatalf("%+v", list)
			}
		}
	})
}
