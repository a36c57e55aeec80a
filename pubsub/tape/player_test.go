package tape

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// steps is the text of a segment with some steps.
func steps(t *testing.T, n int) []byte {
	t.Helper()
	d := newDisk(1 << 20)
	record(t, d, func(r *Recorder) {
		c, l := &counter{}, r.Reel("counter", "a")
		for range n {
			Step(l, c, add{N: 1})
		}
	})
	return d.segments[0].Bytes()
}

// playable plays a segment, and returns how many steps were replayed.
func playable(from io.Reader) (steps int, err error) {
	_, err = NewPlayer(testCodec(), counters()).Play(from, func(m Moment) bool {
		if m.Core != "" && m.Skip == "" {
			steps++
		}
		return true
	})
	return steps, err
}

// The end of a process is no damage. What a disk or somebody has changed is said, with its line: one who reads "all
// decide as recorded" must know that it is not all.
func TestDamageIsSaid(t *testing.T) {
	whole := steps(t, 20)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for at := len(lines[0]); at < len(whole); at++ {
		if _, err := playable(bytes.NewReader(whole[:at])); err != nil {
			t.Fatalf("cut at %d: %v", at, err)
		}
	}
	lines[10] = lines[10][len(lines[10])/2:]
	if n, err := playable(bytes.NewReader(bytes.Join(lines, nil))); n != 9 || !errors.Is(err, ErrDamaged) ||
		!strings.Contains(err.Error(), "line 11: ") {
		t.Errorf("%d steps, %v", n, err)
	}
	if n, err := playable(io.MultiReader(bytes.NewReader(whole), strings.NewReader(strings.Repeat("x", maxLine+1)))); n !=
		20 || !errors.Is(err, ErrDamaged) {
		t.Errorf("a line without an end: %d steps, %v", n, err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(whole); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	said := 0
	for at := 10; at < packed.Len(); at++ { // behind the header
		broken := bytes.Clone(packed.Bytes())
		broken[at] ^= 1 << (at % 8)
		zip, err := gzip.NewReader(bytes.NewReader(broken))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := playable(zip); err != nil {
			said++
		}
	}
	if said != packed.Len()-10 {
		t.Errorf("of %d flipped bits %d are said", packed.Len()-10, said)
	}
}

// A recording of a few octets, compressed, must not take the memory of whom it is sent to.
func TestWhatIsReadOfALineIsBounded(t *testing.T) {
	const large = 20 << 20
	head := `{"head":{"Start":1}}` + "\n"
	list := func(of string) string { return "[" + strings.Repeat(of+",", large/len(of)) + "0]" }
	step := `{"n":1,"core":"counter","of":"a","new":true,"state":{},"event":`
	for what, line := range map[string]string{
		"values in an event":  step + list("0") + "}\n",
		"values in a value":   `{"value":"0","is":` + list("{}") + "}\n",
		"effects of one step": step + `{"N":1},"effects":` + list("0") + "}\n",
		"many values":         manyValues(300),
	} {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p := NewPlayer(testCodec(), counters())
		_, err := p.Play(strings.NewReader(head+line), func(Moment) bool { return true })
		runtime.GC()
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: it is read", what)
		}
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 320<<20 {
			t.Errorf("%s: %d MiB are left", what, grown>>20)
		}
		runtime.KeepAlive(p)
	}
}

// manyValues are n shared values of a MiB each.
func manyValues(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"value":"%d","is":"%s"}`+"\n", i, strings.Repeat("x", 1<<20))
	}
	return b.String()
}

// Values that take much room in memory, and little as text.
func TestLargeTypesAreBounded(t *testing.T) {
	type huge struct {
		A [1 << 16]byte
		P []*huge
		M map[string]huge
	}
	for what, text := range map[string]string{
		"list":     `{"P":[` + strings.Repeat("{},", 1<<16) + `{}]}`,
		"map":      `{"M":{` + keys(1<<16) + `}}`,
		"in lists": `[` + strings.Repeat("null,", 1<<20) + `null]`,
	} {
		x, err := tree([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		of := reflect.TypeFor[huge]()
		if what == "in lists" {
			of = reflect.TypeFor[[]huge]()
		}
		d := decoder{c: testCodec(), left: maxValues, unknown: map[string]bool{}}
		if _, err := d.value(of, x); !errors.Is(err, errLarge) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%d":null,`, i)
	}
	return b.String() + `"end":null`
}

// A number that another release has room for is none that this one may cut.
func TestANumberThatDoesNotFitIsAFault(t *testing.T) {
	for text, of := range map[string]reflect.Type{"300": reflect.TypeFor[int8](), "-129": reflect.TypeFor[int8](),
		"65536": reflect.TypeFor[uint16](), "1e300": reflect.TypeFor[float32]()} {
		x, err := tree([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		d := decoder{c: testCodec(), left: maxValues}
		if v, err := d.value(of, x); err == nil {
			t.Errorf("%s is read as %v %v", text, of, v)
		}
	}
}

// A format that only a later release knows is not guessed at.
func TestARecordingOfALaterFormat(t *testing.T) {
	whole := string(steps(t, 1))
	if !strings.Contains(whole, `"Format":1`) {
		t.Errorf("no format in %s", whole)
	}
	if _, err := playable(strings.NewReader(strings.Replace(whole, `"Format":1`, `"Format":2`, 1))); err == nil ||
		!strings.Contains(err.Error(), "format 2") {
		t.Errorf("%v", err)
	}
	if n, err := playable(strings.NewReader(strings.Replace(whole, `,"Format":1`, ``, 1))); n != 1 || err != nil {
		t.Errorf("from before formats had numbers: %d steps, %v", n, err)
	}
}
