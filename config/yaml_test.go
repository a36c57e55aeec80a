package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	goccy "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

func TestTheFirstDocumentOfAStream(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                   "none 0 0",
		"# c\n\n":                            "none 0 0",
		"---\n...\n":                         "none 0 0",
		"---\n# c\n---\n":                    "none 0 3",
		"a":                                  "a 1:1 0 0",
		"--- a":                              "a 1:5 0 0",
		"a\n...\n# c\n...\n":                 "a 1:1 0 0",
		"a\n...\nb":                          "a 1:1 0 3",
		"...\na\n---\nb: [":                  "a 2:1 0 3",
		"a\n---":                             "a 1:1 0 2",
		"%YAML 1.1\n# c\n%TAG ! x\n---\na\n": "a 5:1 3 0",
		"%YAML 1.1\r\n---\r\na\r\n":          "a 3:1 1 0",
		"a\r---\r%TAG":                       "a 1:1 0 2",
		"a\u2028...\u2028b":                  "a 1:1 0 3",
		"---x":                               "---x 1:1 0 0",
		"'---x\n ---\n ...'":                 "---x --- ... 1:1 0 0",
		"'a\n%b'":                            "a %b 1:1 0 0",
	} {
		y, err := ReadYAML(text)
		got := "none"
		if y.Root != nil {
			got = fmt.Sprintf("%s %d:%d", y.Root.Value, y.Root.Line, y.Root.Column)
		}
		if got += fmt.Sprintf(" %d %d", y.Directive, y.Next); err != nil || got != want {
			t.Errorf("%q: %s %v, want %s", text, got, err, want)
		}
	}
}

// A line is where the fault is or the one after, in the middle of a long document too, or where what is not closed
// begins.
func TestYAMLSaysWhereItIsWrong(t *testing.T) {
	t.Parallel()
	before := strings.Repeat("k: {a: 1} # c\n", 300)
	for text, want := range map[string]string{
		"a: b: c":                                 "line 1: mapping values are not allowed in this context",
		"a:\n    b: 1\n  c: 2":                    "line 3: did not find expected key",
		before + "a: 1\n b: 2\n":                  "line 302: mapping values are not allowed in this context",
		before + "  b: 2\n" + before:              "line 301: did not find expected key",
		before + "a: }\n" + before:                "line 302: did not find expected node content",
		before + "a: [1\n":                        "line 301: did not find expected ',' or ']'",
		before + "a: 'x\n" + before:               "line 301: found unexpected end of stream",
		before + "a: *x\n" + before:               "line 302: unknown anchor 'x' referenced",
		before + "a: \"\\q\"\n":                   "line 301: found unknown escape character",
		"%A\n---\n" + "a: @":                      "line 3: found character that cannot start any token",
		"{} {}":                                   "line 1: did not find expected <document start>",
		"a\x00b":                                  "line 1: control characters are not allowed",
		strings.Repeat("[", 10001):                "exceeded max depth",
		strings.Repeat("- ", 10001):               "exceeded max depth",
		strings.Repeat("? ", 10001):               "exceeded max depth",
		strings.Repeat("x,", 1<<20+1):             "it has more than 1048576 words; JSON can be longer",
		"a" + strings.Repeat("\r%TAG !x! y", 101): "it has more than 100 lines that begin with %",
	} {
		_, err := ReadYAML(text)
		var bad *YAMLError
		if !errors.As(err, &bad) || err.Error() != want || bad.Deep != strings.Contains(want, "depth") {
			t.Errorf("%.30q: %v, want %s", text, err, want)
		}
	}
}

func TestTagsOfYAML(t *testing.T) {
	t.Parallel()
	const text = "a: ! 1\nb: !!str 1\nc: &x ! 1\nd: !x 1\ne: 'no ! tag'\nf: [é, ! 2, *x]\ng: é ! 1\nh: !\n"
	y, err := ReadYAML(text)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for i := 1; i < len(y.Root.Content); i += 2 {
		n := y.Root.Content[i]
		got += y.Tag(n) + " "
		for _, item := range n.Content {
			got += y.Tag(item) + ","
		}
	}
	if want := "! !!str ! !x   ,!,, ! "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestYAMLIsReadAsGoccyReadsIt(t *testing.T) {
	t.Parallel()
	docs := []string{
		"a: 1\nb:\n  c: x y  # comment\n  d: 'it''s'\ne: \"q\\n\\u00e9\"\n",
		"a: |\n  one\n   two\n\nb: >-\n  folded\n  text\nc: 1\n",
		"a:\n  - x\n  - y: 1\n    z: 2\n  - - n\nb: c\n",
		"a:\n- x\n- y\nb: {c: [1, {d: e}], f: , \"g\":h, i}\n",
		"a: plain\n  over lines\nb: ~\nc:\nd: true\ne: yes\nf: 1.5\n",
		"\"quoted key\": x\n'single': y\n0: z\n",
		"a: {\n  b: c,\n  d: e\n}\nf: g\n",
		"a: http://example/x#y\nb: 02:00:00:00:00:01\nc: a:b\nd: -x\n",
		"a:\r\n  b: 1\r\nc: 2\r\n",
		"# head\n---\n# more\na:\n  # inner\n  b: 1\n\n  c: 2\n# tail\n",
		"a:\n    b:\n        c: 1\n    d: 2\ne: 3\n",
		"a: \"two\n  lines\"\nb: 1\n",
	}
	files, _ := filepath.Glob("../examples/*.yaml")
	for _, file := range files {
		doc, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(doc))
	}
	if len(files) == 0 {
		t.Fatal("no examples")
	}
	plain := func(v any) (out any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		_ = json.Unmarshal(text, &out)
		return out
	}
	for _, doc := range docs {
		d, faults := ReadDocument([]byte(doc))
		var v any
		if err := goccy.Unmarshal([]byte(doc), &v); err != nil || faults != nil {
			t.Fatalf("%s: %v %v", doc, err, faults)
		}
		if got, want := plain(d.Object), plain(v); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nours   %v\ngoccy's %v", doc, got, want)
		}
	}
}

// FuzzReadYAML: no stream makes the reader panic, and what is wrong with it is one line.
func FuzzReadYAML(f *testing.F) {
	for _, s := range []string{"a: &x [1, 2.50]\nb: *x\n", "- !!str 5\n- |\n  x\n", "{a: [b, c], <<: {d: 1}}",
		"a:\n- b\n-\n---\nc",
		"'", "a: !!str", "- &a\n- *a", "? x", "%YAML 1.1\n---\n! a\n...\n", "# c\na: 1 # d\n\n# e\n", "{} {}",
		"[a: b, ? c]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		y, err := ReadYAML(text)
		if err != nil && (strings.ContainsAny(err.Error(), "\n\r\x00\u2028") || err.Error() == "") {
			t.Fatalf("no line: %q", err)
		}
		if y.Root != nil && (y.Root.Line < 1 || y.Root.Line > countLines(text)) {
			t.Fatalf("line %d of %d", y.Root.Line, countLines(text))
		}
		d, faults := ReadDocument([]byte(text))
		if (d.Object == nil) && len(faults) == 0 {
			t.Fatal("nothing is read, and nothing is wrong")
		}
		if len(faults) == 0 && len(d.Unsupported()) == 0 {
			again, faults := ReadObject(AppendCanonical(nil, d.Object))
			if len(faults) > 0 && !strings.Contains(faults.Error(), "a number as JSON") || len(faults) == 0 &&
				!Equal(again, d.Object) {
				t.Fatalf("%s: %v", AppendCanonical(nil, d.Object), faults)
			}
		}
	})
}

// documentsOfYAML are large ones, of which each has another way to be slow.
func documentsOfYAML() map[string]string {
	var block, rules, lists, flow strings.Builder
	flow.WriteByte('{')
	for i := range 1_000_000 {
		fmt.Fprintf(&block, "k%06d: %d\n", i, i)
	}
	for i := range 200_000 {
		fmt.Fprintf(&flow, "k%06d: %d, ", i, i)
		fmt.Fprintf(&lists, "k%06d:\n- %d\n", i, i)
	}
	flow.WriteByte('}')
	for i := range 20_000 {
		fmt.Fprintf(&rules, "r%05d:\n  direction: egress\n  match: {ip: 198.51.100.%d/32, port: 443}\n  order: %d\n", i,
			i%250, i)
	}
	return map[string]string{
		"million_keys": block.String(), "flow": flow.String(), "lists": lists.String(), "rules": rules.String(),
		"comments": "k: 1 # d\n" + strings.Repeat("# c\n", 500_000),
		"literal":  "a: |\n" + strings.Repeat("  some text\n", 300_000),
		"deep":     strings.Repeat("- ", 9_000) + "x",
	}
}

// BenchmarkYAML is our reader beside goccy's scanner alone, of which the reader before this one was made: goccy's own
// parser takes quadratic time for the keys of one mapping.
func BenchmarkYAML(b *testing.B) {
	for name, text := range documentsOfYAML() {
		b.Run(name, func(b *testing.B) {
			own := func() any {
				y, err := ReadYAML(text)
				if err != nil {
					b.Fatal(err)
				}
				return y
			}
			theirs := func() any {
				var s scanner.Scanner
				s.Init(text)
				var all []*token.Token
				for {
					tokens, err := s.Scan()
					all = append(all, tokens...)
					if err != nil {
						return all
					}
				}
			}
			beside(b, func() { own() }, func() { theirs() })
			b.ReportMetric(allocated(own), "MB-ours")
			b.ReportMetric(allocated(theirs), "MB-theirs")
		})
	}
}

// allocated are the megabytes that a function allocates.
func allocated(f func() any) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / 1e6
}
