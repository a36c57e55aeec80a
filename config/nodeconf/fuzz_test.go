package nodeconf

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"edgespan/config"
)

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

// FuzzRead: no document makes Read panic; its faults are sorted, one line each;
// an accepted document means the same as its canonical JSON.
func FuzzRead(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		o, c, err := Read(doc)
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
		again := config.AppendCanonical(nil, o)
		_, c2, err := Read(again)
		if err != nil {
			t.Fatalf("%s\n%v", again, err)
		}
		if !reflect.DeepEqual(c, c2) {
			t.Errorf("%s differs from %s:\n%s", doc, again, cmp.Diff(c, c2, cmpopts.EquateComparable()))
		}
	})
}

// big is a quarter of the largest document: enough to tell work that grows with
// the square of the length, which takes minutes, from work that does not.
const big = 1 << 20

// A long document costs a second at most, whatever is in it: the daemon reads
// what anyone with access to its socket sends.
func TestLongDocumentsEndSoon(t *testing.T) {
	fill := func(s string) string { return strings.Repeat(s, big/len(s)) }
	for name, doc := range map[string]string{
		"keys":          fill("a:\n"),
		"braces":        fill("{"),
		"dashes":        fill("- "),
		"questions":     fill("? "),
		"colons":        fill(": "),
		"flow":          "{" + fill("a: 1, ")[:big-6] + "}",
		"quotes":        fill("'' "),
		"spaces":        fill(" "),
		"newlines":      fill("\n"),
		"comments":      fill("#\n"),
		"plain lines":   fill("x\n"),
		"literal":       "a: |\n" + fill(" x\n")[:big-6],
		"JSON keys":     `{"a":1` + fill(`,"a":1`)[:big-12] + "}",
		"one string":    `a: "` + fill("x")[:big-6] + `"`,
		"indentations":  stairs(),
		"anchors":       fill("- &a x\n"),
		"tags":          fill("- !!str a\n"),
		"bare tags":     "a: [" + fill("! ,")[:big-6] + "]",
		"empty keys":    fill("?\n"),
		"flow list":     "a: [" + fill("a,")[:big-6] + "]",
		"directives":    fill("%TAG !a! b\n"),
		"more of them":  "a" + fill("\r%TAG !a! b"),
		"wrong at last": fill("a: 1\n") + "]",
	} {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			start := threadTime(t)
			if _, _, err := Read([]byte(doc)); err == nil {
				t.Error("accepted")
			}
			if d := threadTime(t) - start; d > 3*time.Second { // half a second
				t.Errorf("took %v", d)
			} else {
				t.Logf("took %v", d)
			}
		})
	}
}

// threadTime returns the processor time of this thread, independent of other load on the machine.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(1, &u); err != nil { // RUSAGE_THREAD
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// stairs are mappings, each deeper than the one before.
func stairs() string {
	var b strings.Builder
	for i := 0; b.Len() < big-4000; i++ {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}
