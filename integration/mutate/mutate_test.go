package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const tiny = `package tiny

const Limit = 2 * 3

func Name(a, b string) string { return a + b }

func Clamp(n, most int) int {
	switch {
	case n > most && most != 0:
		return most
	case n < -Limit:
		return -Limit
	case n == 77:
		if most > 5 {
			return 0
		}
	}
	for i := 0; i < 1; i++ {
		n = n + 0
	}
	return n
}
`

const tinyTest = `package tiny

import "testing"

func TestClamp(t *testing.T) {
	for _, c := range [][3]int{{1, 0, 1}, {3, 2, 2}, {1, 2, 1}, {-7, 2, -6}, {-6, 2, -6}} {
		if got := Clamp(c[0], c[1]); got != c[2] {
			t.Errorf("%v: %d", c, got)
		}
	}
}
`

// listing is what gremlins says of tiny; it takes the conditions of case for not covered.
const listing = `
    RUNNABLE ARITHMETIC_BASE at tiny.go:3:17
    RUNNABLE ARITHMETIC_BASE at tiny.go:5:42
 NOT COVERED CONDITIONALS_BOUNDARY at tiny.go:9:9
 NOT COVERED CONDITIONALS_NEGATION at tiny.go:9:9
 NOT COVERED INVERT_LOGICAL at tiny.go:9:16
 NOT COVERED CONDITIONALS_NEGATION at tiny.go:9:24
 NOT COVERED CONDITIONALS_BOUNDARY at tiny.go:11:9
 NOT COVERED INVERT_NEGATIVES at tiny.go:12:10
 NOT COVERED CONDITIONALS_BOUNDARY at tiny.go:14:11
    RUNNABLE ARITHMETIC_BASE at tiny.go:19:9
    RUNNABLE CONDITIONALS_BOUNDARY at below/other.go:3:9
Dry run completed`

const verdicts = `
killed tiny.go package: 2 * 3 -> 2 / 3
not viable tiny.go Name: a + b -> a - b
equivalent tiny.go Clamp: n > most -> n >= most
killed tiny.go Clamp: n > most -> n <= most
killed tiny.go Clamp: n > most && most != 0 -> n > most || most != 0
killed tiny.go Clamp: most != 0 -> most == 0
lived tiny.go Clamp: n < -Limit -> n <= -Limit
killed tiny.go Clamp: -Limit -> +Limit
uncovered tiny.go Clamp: most > 5 -> most >= 5
lived tiny.go Clamp: n + 0 -> n - 0`

func TestAMutantIsTestedByItsPackage(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module tiny\n\ngo 1.24\n", "tiny/tiny.go": tiny,
		"tiny/tiny_test.go": tinyTest} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	ms := parseList(listing)
	r, err := newRun("tiny", ms)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(r.tmp)
	if err := r.testMutants(ms); err != nil {
		t.Fatal(err)
	}
	list, err := parseEquivalents("# comment\n\ntiny/tiny.go Clamp: n > most -> n >= most | it returns most, which n "+
		"is\nother/o.go F: a -> b | x\n", "tiny")
	if err != nil {
		t.Fatal(err)
	}
	if wrong := list.apply(ms); len(wrong) > 0 {
		t.Error(wrong)
	}
	var got strings.Builder
	for _, m := range ms {
		got.WriteString("\n" + string(m.Verdict) + " " + m.Key())
	}
	if got.String() != verdicts {
		t.Errorf("got:%s\nwant:%s", got.String(), verdicts)
	}
	if s := scoreOf(ms); int(s.Noticed()) != 71 || int(s.Unreached()) != 12 {
		t.Errorf("score %v, unreached %v of %v", s.Noticed(), s.Unreached(), s)
	}
	after, err := os.ReadFile("tiny/tiny.go")
	if err != nil || string(after) != tiny {
		t.Errorf("the tree was changed: %v", err)
	}
}

// The list can't hide what it does not name, nor go on hiding what a test has come to see.
func TestAnEntryOfTheListThatIsWrongFails(t *testing.T) {
	ms := []*Mutant{{File: "a.go", Func: "F", From: "x", Into: "y", Verdict: Killed},
		{File: "a.go", Func: "F", From: "x", Into: "z", Verdict: Lived}}
	list, err := parseEquivalents("p/a.go F: x -> y | same\np/a.go F: x -> w | same\np/q/a.go F: x -> z | of another "+
		"package", "p")
	if err != nil {
		t.Fatal(err)
	}
	wrong := list.apply(ms)
	slices.Sort(wrong)
	if want := []string{"a test kills it: a.go F: x -> y", "no such mutant: a.go F: x -> w"}; !slices.Equal(wrong, want) {
		t.Errorf("%v, want %v", wrong, want)
	}
	if ms[1].Verdict != Lived {
		t.Errorf("what no entry names is %s", ms[1].Verdict)
	}
	for _, text := range []string{"p/a.go F: x -> y", "p/a.go F: x -> y | "} {
		if _, err := parseEquivalents(text, "p"); err == nil {
			t.Errorf("%q has no reason, and is taken", text)
		}
	}
}
