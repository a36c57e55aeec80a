package tape

import (
	"errors"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

type (
	shape interface{ area() int }
	box   struct{ Side int }
	disc  struct{ Radius, Password string }
)

func (box) area() int   { return 1 }
func (*disc) area() int { return 2 }

// inner has what cores have: unexported fields, maps by structs, pointers, interfaces, times.
type inner struct {
	name    string
	at      time.Time
	Addr    netip.Addr
	prefix  netip.Prefix
	shapes  []shape
	byBox   map[box]*inner
	words   map[string]string
	bytes   []byte
	numbers [3]int8
	big     uint64
	ratio   float64
	fault   error
	on      bool
	left    *int
	call    func()
	any     any
	nothing map[string]int
	empty   map[string]int
	void    []int
}

func testCodec() *Codec {
	c := NewCodec(box{}, &disc{}, inner{})
	c.IsSecret = func(name string) bool { return strings.HasSuffix(strings.ToLower(name), "password") }
	return c
}

// coded returns a value after it was written and read, and its text.
func coded[V any](t *testing.T, c *Codec, v V) (V, string) {
	t.Helper()
	e := encoder{c: c}
	e.value(&v)
	if e.err != nil {
		t.Fatal(e.err)
	}
	x, err := tree(e.out)
	if err != nil {
		t.Fatalf("%s: %v", e.out, err)
	}
	d := decoder{c: c, left: maxValues, unknown: map[string]bool{}}
	out, err := d.value(reflect.TypeFor[V](), x)
	if err != nil {
		t.Fatalf("%s: %v", e.out, err)
	}
	return out.Interface().(V), string(e.out)
}

func TestAValueIsTheSameAfterwards(t *testing.T) {
	n := 7
	small := inner{name: "small", left: &n}
	v := inner{
		name: "a \"b\" \n\x00 ü <&>", at: withMonotonic(time.Now().UTC(), 99), Addr: netip.MustParseAddr("fe80::1%eth0"),
		prefix: netip.MustParsePrefix("10.0.0.0/8"), shapes: []shape{box{3}, &disc{Radius: "r"}, nil},
		byBox: map[box]*inner{{2}: &small, {1}: nil}, words: map[string]string{"b": "2", "a": "1", "\xff\xfe": "no text"},
		bytes: []byte{0, 255}, numbers: [3]int8{-1, 0, 1}, big: math.MaxUint64, ratio: math.Inf(-1),
		fault: errors.New("it failed"), on: true, any: map[string]any{"x": []any{true, "y", 1.5}},
		empty: map[string]int{}, void: []int{},
	}
	got, text := coded(t, testCodec(), v)
	if !reflect.DeepEqual(got, v) {
		t.Errorf("%s\nis read as %+v", text, got)
	}
	if again, other := coded(t, testCodec(), got); other != text || !reflect.DeepEqual(again, v) {
		t.Errorf("%s\nis written again as\n%s", text, other)
	}
}

// Durations are measured by the monotonic clock: a jump of the wall clock in a recording is none in its replay.
func TestATimeKeepsItsMonotonicReading(t *testing.T) {
	a := time.Now()
	b := a.Add(time.Second)
	type pair struct{ A, B, Wall, Zero, Zoned time.Time }
	p := pair{A: a, B: b, Wall: a.Round(0), Zoned: a.Round(0).In(time.FixedZone("", 3600))}
	got, _ := coded(t, testCodec(), p)
	if !got.A.Equal(a) || got.B.Sub(got.A) != time.Second || !got.Zero.IsZero() || got.A.String() != a.String() ||
		got.Wall.String() != p.Wall.UTC().String() || got.Zoned.String() != p.Zoned.String() {
		t.Errorf("%v\nis read as %v", p, got)
	}
	late := withMonotonic(got.B.Add(-time.Hour).Round(0), 12345) // the wall clock was set back
	if again, _ := coded(t, testCodec(), late); again.String() != late.String() {
		t.Errorf("%v is read as %v", late, again)
	}
	if old := time.Date(1800, 1, 1, 0, 0, 0, 0, time.UTC); !withMonotonic(old, 1).Equal(old) {
		t.Error("a time before 1885 is another one")
	}
}

// Cores change one thing in several places, and things know each other.
func TestTwoPointersToOneThingRemainTwo(t *testing.T) {
	type node struct {
		n    int
		next *node
	}
	type state struct {
		byName map[string]*node
		order  []*node
		none   *node
	}
	a, b := &node{n: 1}, &node{n: 2}
	a.next, b.next = b, a
	e := encoder{c: testCodec(), strict: true}
	e.value(&state{map[string]*node{"a": a, "b": b}, []*node{b, a, nil}, nil})
	x, err := tree(e.out)
	if err != nil || e.err != nil {
		t.Fatalf("%s: %v, %v", e.out, err, e.err)
	}
	d := decoder{c: testCodec(), left: maxValues}
	v, err := d.state(reflect.TypeFor[*state](), x)
	if err != nil {
		t.Fatal(err)
	}
	got := v.Interface().(*state)
	got.byName["a"].n = 7
	if len(got.order) != 3 || got.order[1].n != 7 || got.order[0] != got.byName["b"] || got.byName["b"].next.n != 7 ||
		got.order[2] != nil || got.none != nil {
		t.Errorf("%s is read as %+v", e.out, got)
	}
	for _, wrong := range []string{`{"&":1,"is":{"none":{"&":7}}}`, `{"&":1,"is":{"none":{"&":7},"order":7}}`} {
		x, _ := tree([]byte(wrong))
		d.things = nil
		if v, err := d.state(reflect.TypeFor[*state](), x); err == nil {
			t.Errorf("%s is read as %v", wrong, v)
		}
	}
}

// A core that goes on without a recording is better than one that is recorded wrongly.
func TestWhatHasNoTextIsAFault(t *testing.T) {
	type holder struct{ Shape shape }
	unknown := encoder{c: testCodec()}
	if unknown.value(holder{strange{}}); unknown.err == nil {
		t.Errorf("a type that no recording knows is written as %s", unknown.out)
	}
	for strict, want := range map[bool]bool{true: true, false: false} {
		e := encoder{c: testCodec(), strict: strict}
		e.value(inner{call: func() {}})
		if (e.err != nil) != want {
			t.Errorf("a function, strictly %v: %v", strict, e.err)
		}
	}
	type list struct{ next *list }
	end := &list{}
	end.next = end
	e := encoder{c: testCodec()}
	if e.value(end); e.err == nil {
		t.Error("a value that contains itself has an end")
	}
}

type strange struct{}

func (strange) area() int { return 0 }

// An older and a newer release have other fields and types.
func TestAnotherReleaseIsReadAsFarAsItFits(t *testing.T) {
	c := testCodec()
	d := decoder{c: c, left: maxValues, unknown: map[string]bool{}}
	x, err := tree([]byte(`{"Side":4,"Colour":"red"}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.value(reflect.TypeFor[box](), x)
	if err != nil || got.Interface() != any(box{4}) || !d.unknown["tape.box.Colour"] {
		t.Errorf("%v, %v, unknown %v", got, err, d.unknown)
	}
	for text, want := range map[string]string{
		`{"shapes":[{"tape.cube":{}}]}`: "tape.cube is no type of this release",
		`{"shapes":3}`:                  "is no value of type",
		`{"big":-1}`:                    "invalid syntax",
		`{"on":"yes"}`:                  "is no value of type bool",
		`{"at":"today"}`:                "cannot parse",
		`{"numbers":[1]}`:               "is no value of type [3]int8",
		`{"bytes":"%"}`:                 "illegal base64",
		`{"byBox":[[1]]}`:               "is no value of type",
	} {
		x, err := tree([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.value(reflect.TypeFor[inner](), x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
}

// FuzzRead: whatever is in a file, reading ends with a value or a fault.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"name":"a","shapes":[{"tape.box":{"Side":1}}],"byBox":[[{"Side":1},null]],"at":"2026-01-01T00:00:00Z@1"}`))
	f.Add([]byte(`{"words":{"=":"00"},"numbers":[1,2,3],"ratio":"NaN","fault":["/w=="]}`))
	c := testCodec()
	f.Fuzz(func(_ *testing.T, text []byte) {
		x, err := tree(text)
		if err != nil {
			return
		}
		d := decoder{c: c, left: maxValues, unknown: map[string]bool{}, shared: func(string) (any, bool) { return nil, false }}
		_, _ = d.value(reflect.TypeFor[inner](), x)
	})
}
