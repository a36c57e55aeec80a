package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the golden files anew; read their diff line by line")

const hostile = "\"'><script>alert(1)</script></title></style><img src=x onerror=alert(2)>\x1b[2J\x00\u202eabc\xff\nnext --> ]]>"

// example is a run of two hours with three nodes, of which one grows, and two violations.
func example(step time.Duration) Run {
	r := rand.New(rand.NewPCG(1, 2))
	run := Run{
		Title: "Soak of three nodes", Version: "v0.9.0-12-g5d42c13b", Release: "v0.8.0", Accel: "KVM", Seed: 7,
		Repeat: "make soak SOAK=2h SEED=7", Begin: time.Date(2026, 11, 28, 20, 0, 0, 0, time.UTC), Length: 2 * time.Hour,
		Steps: 1440, Changes: 911, Faults: 12,
		Counters: []Counter{{"packets judged on the wire", 1234567}, {"packets lost in upgrades", 0}},
	}
	for i, name := range []string{"node1", "node2", "node3", "controller"} {
		memory := every(step, run.Length, func(at time.Duration) float64 {
			return 60 + 8*float64(i) + 14*(1-math.Exp(-at.Minutes()/8)) + 0.8*r.NormFloat64()
		})
		if name == "node3" {
			for j := range memory.Samples {
				memory.Samples[j].Value += 6 * memory.Samples[j].At.Hours()
			}
		}
		memory.Machine = name
		run.Series = append(run.Series, memory)
		processor := every(step, run.Length, func(time.Duration) float64 { return 3 + r.ExpFloat64()*4 })
		processor.Machine, processor.Name, processor.Unit, processor.Flat = name, "processor", "%", false
		if name == "node2" { // powered off for ten minutes
			for j := range processor.Samples {
				if at := processor.Samples[j].At; at > 40*time.Minute && at < 50*time.Minute {
					processor.Samples[j].Value = math.NaN()
				}
			}
		}
		run.Series = append(run.Series, processor)
	}
	for i := range 12 {
		at := time.Duration(i)*9*time.Minute + 3*time.Minute
		run.Marks = append(run.Marks, Mark{At: at, End: at + time.Duration(i%3)*time.Minute, Machine: fmt.Sprint("node", i%3+1),
			Kind: "fault", Text: []string{"kill -9 of the daemon", "dnsmasq is stopped", "the disk is full"}[i%3]})
		run.Marks = append(run.Marks, Mark{At: at + time.Minute, Machine: "node1", Kind: "change", Text: "network lan-" + fmt.Sprint(i) + " is added"})
	}
	run.Marks = append(run.Marks, Mark{At: time.Hour, Kind: "note", Text: "the fleet is at rest"})
	run.Violations = []Violation{
		{5000 * time.Second, "node2", "observed equals desired", "chain v4/filter/ES1-A1 differs 11 s after the last change"},
		{90 * time.Minute, "node1", "no packet past a rule", "10.1.0.2 <-> 10.2.0.2 tcp/80"},
	}
	return run
}

func html(t *testing.T, r Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func text(t *testing.T, r Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// elements parses a page strictly, as XML, and returns its elements; scripts, links to elsewhere and handlers of events
// fail.
func elements(t *testing.T, page string) []xml.StartElement {
	t.Helper()
	var all []xml.StartElement
	for d := xml.NewDecoder(strings.NewReader(page)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if slices.Contains([]string{"script", "img", "link", "iframe", "object"}, e.Name.Local) {
			t.Errorf("the page has a %s", e.Name.Local)
		}
		for _, a := range e.Attr {
			if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "src" || a.Name.Local == "href" {
				t.Errorf("the page has %s=%q", a.Name.Local, a.Value)
			}
			if strings.Contains(a.Value, "ZgotmplZ") {
				t.Errorf("the template refused %s of %s", a.Name.Local, e.Name.Local)
			}
		}
		all = append(all, e.Copy())
	}
}

func count(all []xml.StartElement, name, class string) (n int) {
	for _, e := range all {
		for _, a := range e.Attr {
			if e.Name.Local == name && a.Name.Local == "class" && slices.Contains(strings.Fields(a.Value), class) {
				n++
			}
		}
	}
	return n
}

func TestTheReportIsAsGolden(t *testing.T) {
	t.Parallel()
	run := example(2 * time.Minute)
	for name, got := range map[string]string{"run.html": html(t, run), "run.txt": text(t, run)} {
		name = "testdata/" + name
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs: run with -update, and read the diff", name)
		}
	}
}

func TestThePageShowsTheRun(t *testing.T) {
	t.Parallel()
	page := html(t, example(10*time.Second))
	all := elements(t, page)
	for what, want := range map[[2]string]int{
		{"rect", "fault"}: 2 * 12, {"rect", "violation"}: 2 * 2, {"tr", "fault"}: 12, {"tr", "violation"}: 2, {"path", "c0"}: 4,
		{"path", "c3"}: 4, {"tr", "change"}: 12, {"tr", "note"}: 1, {"td", "bad"}: 1,
	} {
		if got := count(all, what[0], what[1]); got != want {
			t.Errorf("%d %s of class %s, want %d", got, what[0], what[1], want)
		}
	}
	for _, want := range []string{"2 violations of 2 invariants. 1 series that must be flat grows.", "in MB", "in %",
		"make soak SOAK=2h SEED=7", "1,234,567", "time since the run began", "<td>node3</td><td>resident memory</td>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if v, s := strings.Index(page, "<h2>Violations"), strings.Index(page, "<h2>Growth"); v < 0 || s < v {
		t.Errorf("violations at %d, slopes at %d: expected violations first", v, s)
	}
}

func TestARunOfNothing(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Run{
		"empty":      {},
		"no samples": {Length: time.Hour, Series: []Series{{Machine: "a", Name: "files", Flat: true}}},
		"nothing measured": {Length: time.Hour, Series: []Series{{Machine: "a", Name: "files", Flat: true,
			Samples: []Sample{{0, math.NaN()}, {time.Minute, math.Inf(1)}, {time.Hour, math.Inf(-1)}}}}},
		"extremes": {Series: []Series{{Machine: "a", Name: "files", Flat: true, Samples: []Sample{{-time.Hour, -math.MaxFloat64},
			{0, 5e-324}, {1 << 62, math.MaxFloat64}}}, {Machine: "a", Name: "tiny", Samples: []Sample{{0, 5e-324}, {9, 6e-320}}}},
			Marks: []Mark{{At: -time.Hour, Kind: "fault"}, {At: 1 << 62, End: -1, Kind: "fault"}}},
		"the end of time": {Length: math.MaxInt64, Marks: []Mark{{At: math.MinInt64, End: math.MaxInt64, Kind: "fault"}}},
	} {
		page := html(t, r)
		elements(t, page)
		for _, bad := range []string{"NaN", "Inf"} {
			if strings.Contains(page, bad) || strings.Contains(text(t, r), bad) {
				t.Errorf("%s: shows %s: %.200s", name, bad, page[max(strings.Index(page, bad)-100, 0):])
			}
		}
		if !strings.Contains(page, "No invariant was violated.") || !strings.Contains(text(t, r), "No invariant was violated.") {
			t.Errorf("%s: does not say that no invariant was violated", name)
		}
	}
}

// hostileRun has hostile text wherever there is text, and as much of everything as a run could ever have.
func hostileRun(n int) Run {
	long := strings.Repeat(hostile, 50)
	r := Run{Title: long, Version: hostile, Release: hostile, Accel: hostile, Repeat: long, Length: 24 * time.Hour}
	for i := range n {
		at := time.Duration(i) * 24 * time.Hour / time.Duration(n)
		r.Marks = append(r.Marks, Mark{At: at, End: at + time.Minute, Machine: hostile, Kind: "fault", Text: long},
			Mark{At: at, Machine: long, Kind: hostile, Text: long})
		r.Violations = append(r.Violations, Violation{at, hostile, long, long})
		r.Counters = append(r.Counters, Counter{long, -1 << 63})
		r.Series = append(r.Series, Series{hostile + fmt.Sprint(i), hostile + fmt.Sprint(i%90), long, true,
			[]Sample{{at, 1}, {at + 1, 2}}})
	}
	return r
}

func TestHostileTextIsOnlyText(t *testing.T) {
	t.Parallel()
	for _, run := range []Run{hostileRun(1), hostileRun(3)} {
		page := html(t, run)
		elements(t, page)
		for what, out := range map[string]string{"page": page, "text": text(t, run)} {
			for _, c := range out {
				if c != '\n' && c != utf8.RuneError && !unicode.IsPrint(c) {
					t.Errorf("the %s has the character %U", what, c)
				}
			}
			if !strings.Contains(out, `\x1b[2J\x00\u202eabc`) {
				t.Errorf("the %s does not show what does not print", what)
			}
		}
	}
}

func TestTheReportOfALongRunIsBounded(t *testing.T) {
	t.Parallel()
	run := hostileRun(2600)
	s := Series{Machine: "node1", Name: "resident memory", Unit: "MB", Flat: true, Samples: make([]Sample, 1_000_000)}
	for i := range s.Samples {
		s.Samples[i] = Sample{time.Duration(i) * 86 * time.Millisecond, float64(100 + i%7)}
	}
	run.Series = append([]Series{s}, run.Series...)
	begin := time.Now()
	page := html(t, run)
	took := time.Since(begin)
	if len(page) > 32<<20 {
		t.Errorf("the page has %d MB", len(page)>>20)
	}
	all := elements(t, page)
	if got := count(all, "tr", "violation") + count(all, "tr", "fault"); got != maxMarks {
		t.Errorf("%d marks, want %d", got, maxMarks)
	}
	summary := text(t, run)
	if n := strings.Count(summary, "\n"); n > 60 {
		t.Errorf("the summary has %d lines", n)
	}
	lines := strings.Split(summary, "\n")
	for _, line := range lines[:len(lines)-2] { // the last is the command, whole
		if n := utf8.RuneCountInString(line); n > textWidth+1 {
			t.Errorf("a line of %d characters: %q", n, line)
		}
	}
	t.Logf("%d octets of HTML in %s, %d lines of text", len(page), took, strings.Count(summary, "\n"))
}

func TestMarksThatAreLeftOutAreTheOldChanges(t *testing.T) {
	t.Parallel()
	var all []Mark
	for i := range 10 {
		all = append(all, Mark{At: time.Duration(i), Kind: []string{"change", "fault", "note", "violation", "change"}[i%5]})
	}
	var got []string
	for _, m := range shorten(all, 6) {
		got = append(got, fmt.Sprint(m.Kind, int(m.At)))
	}
	if want := "fault1 violation3 fault6 note7 violation8 change9"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestAShortRunIsNotJudged(t *testing.T) {
	t.Parallel()
	for length, want := range map[time.Duration]string{39 * time.Minute: "too short to judge", 41 * time.Minute: "grows"} {
		s := every(10*time.Second, length, func(at time.Duration) float64 { return 100 + 9*at.Hours() })
		got := text(t, Run{Length: length, Series: []Series{s}})
		if !strings.Contains(got, want+"\n") || strings.Contains(got, "must be flat grows") != (want == "grows") {
			t.Errorf("%s: want %q in\n%s", length, want, got)
		}
	}
}

// A violation that the soak marks, too, is one mark.
func TestAViolationIsMarkedOnce(t *testing.T) {
	t.Parallel()
	r := Run{Marks: []Mark{{At: 9, Machine: "a", Kind: "violation", Text: "x"}, {At: 1, Kind: "change"}},
		Violations: []Violation{{9, "a", "x", ""}, {9, "b", "x", "y"}}}
	if got := r.timeline(); len(got) != 3 || got[0].At != 1 || got[2].Machine != "b" || got[2].Text != "x: y" {
		t.Errorf("got %+v", got)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestAFullDiskIsReported(t *testing.T) {
	t.Parallel()
	if (Run{}).HTML(fullDisk{}) == nil || (Run{}).Text(fullDisk{}) == nil {
		t.Error("a report that was not written is taken for one that was")
	}
}
