package nodeconf

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"edgespan/config"
)

// canonical is a tree as JSON, keys sorted, numbers as written.
func canonical(n *node) any {
	switch n.kind {
	case null:
		return nil
	case boolean:
		return n.text == "true"
	case number:
		return json.Number(n.text)
	case text:
		return n.text
	case list:
		return []any{}
	case mapping:
	}
	m := map[string]any{}
	for _, f := range n.fields {
		m[f.key] = canonical(f.value)
	}
	return m
}

func seeds(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(files) == 0 {
		f.Fatal("no examples", err)
	}
	for _, file := range files {
		doc, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(doc)
	}
	for _, s := range []string{
		valid, "{}", "", "null", "---\n{}\n", "a: |\n  x\nb: >-\n  y\n", "? a\n: b\n", "a: &x\nb: *x\n",
		"- - a\n- b: c\n  d: e\n",
		`{"a": "\ud800\/", "b": 1e400}`, "sysParams:\n  logLevel: 'in''fo'\n  watchdogSeconds: 010\n", "\"a\\nb\": 1\n",
		"a: {b: [c, {d: e}], f}\n",
		"ports: {\"$absent\": {\"$absent\": true}}", "a:\n- b\nc:\n  - d\n",
	} {
		f.Add([]byte(s))
	}
}

// FuzzParse: no document makes Parse panic; its faults are sorted, one line each;
// an accepted document means the same as its canonical JSON.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		c, err := Parse(doc)
		if err != nil {
			var fs config.Faults
			if !errors.As(err, &fs) || len(fs) == 0 {
				t.Fatalf("no faults: %v", err)
			}
			if !slices.IsSortedFunc(fs, func(a, b config.Fault) int { return slices.Compare(a.Path, b.Path) }) {
				t.Errorf("not sorted:\n%v", err)
			}
			for _, fault := range fs {
				if line := fault.Error(); strings.ContainsAny(line, "\n\r\x00\u2028") || line == "" {
					t.Errorf("no line: %q", line)
				}
			}
			return
		}
		root, fs := read(doc)
		if len(fs) > 0 {
			t.Fatalf("read differs: %v", fs)
		}
		again, err := json.Marshal(canonical(root))
		if err != nil {
			t.Fatal(err)
		}
		c2, err := Parse(again)
		if err != nil {
			t.Fatalf("%s\n%v", again, err)
		}
		if !reflect.DeepEqual(c, c2) {
			t.Errorf("%s differs from %s:\n%s", doc, again, cmp.Diff(c, c2, cmpopts.EquateComparable()))
		}
	})
}

// sameAsGoccy compares a tree with what goccy's own parser makes of the document:
// kinds, keys, strings and booleans. What a number is differs: ours goes by
// YAML 1.2 and takes 1e3 for one.
func sameAsGoccy(n *node, v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if n.kind != mapping || len(n.fields) != len(v) {
			return false
		}
		for _, f := range n.fields {
			w, ok := v[f.key]
			if !ok || !sameAsGoccy(f.value, w) {
				return false
			}
		}
		return true
	case []any:
		return n.kind == list
	case bool:
		return n.kind == boolean && (n.text == "true") == v
	case nil:
		return n.kind == null
	case string:
		return n.text == v || n.kind == number
	}
	return n.kind == number
}

func TestYAMLIsReadAsGoccyReadsIt(t *testing.T) {
	docs := []string{
		"a: 1\nb:\n  c: x y  # comment\n  d: 'it''s'\ne: \"q\\n\\u00e9\"\n",
		"a: |\n  one\n   two\n\nb: >-\n  folded\n  text\nc: 1\n",
		"a:\n  - x\n  - y: 1\n    z: 2\n  - - n\nb: c\n",
		"a:\n- x\n- y\nb: {c: [1, {d: e}], f: , \"g\":h, i}\n",
		"a: plain\n  over lines\nb: ~\nc:\nd: true\ne: yes\nf: 1.5\ng: 0x1f\n",
		"\"quoted key\": x\n'single': y\n0: z\n",
		"a: {\n  b: c,\n  d: e\n}\nf: g\n",
		"a: http://example/x#y\nb: 02:00:00:00:00:01\nc: a:b\nd: -x\n",
		"a:\r\n  b: 1\r\nc: 2\r\n",
		"# head\n---\n# more\na:\n  # inner\n  b: 1\n\n  c: 2\n# tail\n",
		"a:\n    b:\n        c: 1\n    d: 2\ne: 3\n",
		"a: \"two\n  lines\"\nb: 1\n",
	}
	files, _ := filepath.Glob(filepath.Join(examples, "*.yaml"))
	for _, file := range files {
		doc, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(doc))
	}
	for _, doc := range docs {
		n, err := readYAML(doc)
		if err != nil {
			t.Errorf("%s\n%v", doc, err)
			continue
		}
		var v any
		if err := yaml.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatal(err)
		}
		if !sameAsGoccy(n, v) {
			out, _ := json.Marshal(canonical(n))
			t.Errorf("%s\nours   %s\ngoccy's %v", doc, out, v)
		}
	}
}

// big is a quarter of the largest document: enough to tell work that grows with
// the square of the length, which takes minutes, from work that does not.
const big = maxBytes / 4

// A long document costs a second at most, whatever is in it: the daemon reads
// what anyone with access to its socket sends.
func TestLongDocumentsEndSoon(t *testing.T) {
	fill := func(s string) string { return strings.Repeat(s, big/len(s)) }
	for name, doc := range map[string]string{
		"keys":         fill("a:\n"),
		"braces":       fill("{"),
		"dashes":       fill("- "),
		"questions":    fill("? "),
		"colons":       fill(": "),
		"flow":         "{" + fill("a: 1, ")[:big-6] + "}",
		"quotes":       fill("'' "),
		"spaces":       fill(" "),
		"newlines":     fill("\n"),
		"comments":     fill("#\n"),
		"plain lines":  fill("x\n"),
		"literal":      "a: |\n" + fill(" x\n")[:big-6],
		"JSON keys":    `{"a":1` + fill(`,"a":1`)[:big-12] + "}",
		"one string":   `a: "` + fill("x")[:big-6] + `"`,
		"indentations": stairs(),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			if _, err := Parse([]byte(doc)); err == nil {
				t.Error("accepted")
			}
			if d := time.Since(start); d > 10*time.Second { // half a second on an idle machine
				t.Errorf("took %v", d)
			} else {
				t.Logf("took %v", d)
			}
		})
	}
}

// stairs are mappings, each deeper than the one before.
func stairs() string {
	var b strings.Builder
	for i := 0; b.Len() < big-4000; i++ {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}
