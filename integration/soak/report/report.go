// Package report shows what a soak test has measured: as one HTML file with plots, and as a summary for a terminal.
// It only computes: the same run gives the same octets. It never measures anything, reads no clock, and trusts no
// text: names and log lines of hostile apps are shown, never obeyed, and the size of a report has a bound whatever the
// length of the run.
package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Run is what a soak has seen.
type Run struct {
	Title, Version, Release, Accel string
	Repeat                         string // the command that repeats it
	Seed                           uint64
	Begin                          time.Time
	Length                         time.Duration
	Steps, Changes, Faults         int
	Counters                       []Counter
	Series                         []Series
	Marks                          []Mark
	Violations                     []Violation
}

// Series is one measured quantity of one machine over the run.
type Series struct {
	Machine string // "node1"
	Name    string // "resident memory"
	Unit    string // "MB", "%", "s", ""
	Flat    bool   // must not grow: its slope is judged
	Samples []Sample
}

// Sample is one measured value. NaN or an infinity says that there was nothing to measure: the line has a gap there.
type Sample struct {
	At    time.Duration // since the run's begin
	Value float64
}

// Mark is something that happened.
type Mark struct {
	At, End       time.Duration // End 0: a moment
	Machine, Kind string        // Kind: "change", "fault", "violation", "note"
	Text          string
}

// Violation is a broken invariant.
type Violation struct {
	At                       time.Duration
	Machine, Invariant, Text string
}

// Counter is a number of things over the whole run, such as "packets judged on the wire".
type Counter struct {
	Name  string
	Value int64
}

// MaxGrowth is the growth in percent an hour above which a series that must be flat grows.
const MaxGrowth = 1.0

// MinJudged is the time after SettledFrom without which a report shows slopes and judges none: over a few minutes, one
// tooth of a garbage collector's saw is growth.
const MinJudged = 20 * time.Minute

// SettledFrom is when the slopes of a run begin: caches fill before. That is an hour, or half of a shorter run.
func (r Run) SettledFrom() time.Duration { return min(time.Hour, r.end()/2) }

// What a report shows at most. A line of a plot has two points for each of its buckets.
const (
	maxQuantities = 40
	maxMachines   = 24 // lines of a plot
	maxViolations = 1000
	maxMarks      = 5000
	maxCounters   = 200
	maxText       = 600 // characters of a violation or a mark
	maxName       = 80
	maxRepeat     = 4000
)

// end is the end of the axis of time: the length of the run, or later if something was measured later.
func (r Run) end() time.Duration {
	end := max(r.Length, time.Second)
	for _, s := range r.Series {
		for _, x := range s.Samples {
			end = max(end, x.At)
		}
	}
	for _, m := range r.Marks {
		end = max(end, m.At, m.End)
	}
	for _, v := range r.Violations {
		end = max(end, v.At)
	}
	return end
}

// violations are in the order of time.
func (r Run) violations() []Violation {
	byTime := func(a, b Violation) int { return cmp.Compare(a.At, b.At) }
	return slices.SortedStableFunc(slices.Values(r.Violations), byTime)
}

// invariants is the number of different ones that were broken.
func (r Run) invariants() int {
	names := map[string]bool{}
	for _, v := range r.Violations {
		names[v.Invariant] = true
	}
	return len(names)
}

// timeline has all marks in the order of time, and a mark for each violation that has none.
func (r Run) timeline() []Mark {
	type place struct {
		at      time.Duration
		machine string
	}
	marked := map[place]bool{}
	for _, m := range r.Marks {
		if m.Kind == kindViolation {
			marked[place{m.At, m.Machine}] = true
		}
	}
	all := slices.Clone(r.Marks)
	for _, v := range r.Violations {
		if !marked[place{v.At, v.Machine}] {
			all = append(all, Mark{At: v.At, Machine: v.Machine, Kind: kindViolation, Text: v.Invariant + ": " + v.Text})
		}
	}
	slices.SortStableFunc(all, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	return all
}

// The kinds of marks that a report treats differently.
const (
	kindFault     = "fault"
	kindViolation = "violation"
)

// shorten keeps so many marks of a timeline: violations before faults before others, and of equal ones the later.
func shorten(all []Mark, limit int) []Mark {
	if len(all) <= limit {
		return all
	}
	rank := func(m Mark) int { return slices.Index([]string{kindFault, kindViolation}, m.Kind) }
	index := make([]int, len(all))
	for i := range index {
		index[i] = i
	}
	slices.SortFunc(index, func(a, b int) int { return cmp.Or(rank(all[b])-rank(all[a]), b-a) })
	index = index[:limit]
	slices.Sort(index)
	kept := make([]Mark, limit)
	for i, at := range index {
		kept[i] = all[at]
	}
	return kept
}

// quantity is the series of one name and unit, one for each machine.
type quantity struct {
	name, unit string
	series     []Series
}

// quantities are in the order in which they first appear.
func (r Run) quantities() []quantity {
	var list []quantity
	at := map[[2]string]int{}
	for _, s := range r.Series {
		key := [2]string{s.Name, s.Unit}
		i, ok := at[key]
		if !ok {
			i, at[key] = len(list), len(list)
			list = append(list, quantity{name: s.Name, unit: s.Unit})
		}
		list[i].series = append(list[i].series, s)
	}
	return list
}

// growth is the slope of a series that must be flat.
type growth struct {
	series  Series
	slope   Slope
	known   bool // else there is too little to say
	judged  bool // else the time is too short
	growing bool
}

// growths are those that grow first.
func (r Run) growths() []growth {
	var list []growth
	from := r.SettledFrom()
	judged := r.end()-from >= MinJudged
	for _, s := range r.Series {
		if s.Flat {
			slope, ok := SlopeOf(s, from)
			g := growth{series: s, slope: slope, known: ok, judged: judged}
			g.growing = ok && judged && slope.Grows(MaxGrowth)
			list = append(list, g)
		}
	}
	slices.SortStableFunc(list, func(a, b growth) int {
		switch {
		case a.growing == b.growing:
			return 0
		case a.growing:
			return -1
		}
		return 1
	})
	return list
}

// Growth is the slope of a series that must be flat and grows.
type Growth struct {
	Machine, Name string
	Slope
}

// Growing are the series that must be flat and grow, and those of a run that is long enough of which that is not known:
// they have too few samples, or none of the last minutes. A series that is always 0 is flat.
func (r Run) Growing() (growing []Growth, unknown []Series) {
	for _, g := range r.growths() {
		n, last, zero := 0, time.Duration(0), true
		for _, x := range g.series.Samples {
			n, last, zero = n+1, max(last, x.At), zero && x.Value == 0
		}
		switch {
		case g.growing:
			growing = append(growing, Growth{g.series.Machine, g.series.Name, g.slope})
		case g.judged && (r.end()-last > MinJudged || n < minSlopeSamples || !g.known && !zero):
			unknown = append(unknown, g.series)
		}
	}
	return growing, unknown
}

func (g growth) verdict() string {
	switch {
	case !g.known:
		return "too few samples"
	case !g.judged:
		return "too short to judge"
	case g.growing:
		return "grows"
	}
	return "flat"
}

// clean makes a text from outside fit to be shown on one line: what does not print, and so could steer a terminal or
// turn the direction of writing, is escaped; what is longer than limit characters is cut.
func clean(text string, limit int) string {
	var b strings.Builder
	n := 0
	for _, c := range text {
		if n++; n > limit {
			b.WriteRune('…')
			break
		}
		switch {
		case c == '\n' || c == '\t' || c == '\r':
			b.WriteByte(' ')
		case c == utf8.RuneError || unicode.IsPrint(c):
			b.WriteRune(c)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(c), "'"))
		}
	}
	return b.String()
}
