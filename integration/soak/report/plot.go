package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A plot's own units: the page stretches it to the width that there is.
const (
	plotWidth  = 1000.0
	plotHeight = 200.0
)

// buckets is into how many parts a line of many samples is divided; each is drawn from its least to its largest value,
// so that no peak is lost.
const buckets = 500

// downsample keeps the least and the largest value of each bucket of the time until end, in the order of time. A gap
// is one sample without a value.
func downsample(samples []Sample, end time.Duration) []Sample {
	ordered := slices.SortedStableFunc(slices.Values(samples), func(a, b Sample) int { return cmp.Compare(a.At, b.At) })
	var out []Sample
	add := func(x Sample) {
		if finite(x.Value) || len(out) > 0 && finite(out[len(out)-1].Value) {
			out = append(out, x)
		}
	}
	if len(ordered) <= 2*buckets {
		for _, x := range ordered {
			add(x)
		}
		return out
	}
	bucket := func(x Sample) int { return int(float64(max(x.At, 0)) / float64(end) * buckets) }
	for i := 0; i < len(ordered); {
		low, high, n := i, i, bucket(ordered[i])
		for ; i < len(ordered) && bucket(ordered[i]) == n; i++ {
			v := ordered[i].Value
			if !finite(v) {
				continue
			}
			if !finite(ordered[low].Value) {
				low, high = i, i
			}
			if v < ordered[low].Value {
				low = i
			}
			if v > ordered[high].Value {
				high = i
			}
		}
		add(ordered[min(low, high)])
		if low != high {
			add(ordered[max(low, high)])
		}
	}
	return out
}

// Y is where the line of a tick is drawn.
func (t tick) Y() string { return coordinate(t.Percent * plotHeight / 100) }

// axis is a range of values with its ticks.
type axis struct {
	low, high, step float64
}

// axisOf is wide enough that noise of a few percent does not look like growth, and begins at 0 if that is near.
func axisOf(low, high float64) axis {
	if low > high { // no value at all
		low, high = 0, 1
	}
	if low >= 0 && low < 0.5*high {
		low = 0
	}
	limit := math.MaxFloat64 / 8 // so that no difference overflows
	low, high = max(low, -limit), min(high, limit)
	if least := max(0.1*max(math.Abs(low), math.Abs(high)), 1e-300); high-low < least {
		middle := low/2 + high/2
		bottom := middle - least/2
		if low >= 0 {
			bottom = max(bottom, 0)
		}
		low, high = bottom, bottom+least
	}
	step := niceStep((high - low) / 5)
	return axis{low: math.Floor(low/step) * step, high: math.Ceil(high/step) * step, step: step}
}

// niceStep is the next of 1, 2, 5, 10 times a power of ten.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// y is where a value is, from the top.
func (a axis) y(v float64) float64 {
	return plotHeight * (1 - min(max((v-a.low)/(a.high-a.low), 0), 1))
}

// tick is a label at a part of an axis, in percent from the left or the top.
type tick struct {
	Percent float64
	Label   string
}

func (a axis) ticks() []tick {
	var out []tick
	digits := max(0, -int(math.Floor(math.Log10(a.step))))
	for i := range 12 {
		v := a.low + float64(i)*a.step
		if v > a.high+a.step/2 {
			break
		}
		label := group(strconv.FormatFloat(v, 'f', digits, 64))
		if digits > 6 || math.Abs(a.high) >= 1e10 || math.Abs(a.low) >= 1e10 {
			label = strconv.FormatFloat(v, 'g', 3, 64)
		}
		out = append(out, tick{round1(100 * a.y(v) / plotHeight), label})
	}
	return out
}

// timeSteps are the distances of the ticks of time.
var timeSteps = []time.Duration{1e9, 2e9, 5e9, 10e9, 20e9, 30e9, 60e9, 120e9, 300e9, 600e9, 900e9, 1800e9, 3600e9,
	2 * 3600e9, 3 * 3600e9, 4 * 3600e9, 6 * 3600e9, 12 * 3600e9, 24 * 3600e9}

func timeTicks(end time.Duration) []tick {
	step := timeSteps[len(timeSteps)-1]
	for _, s := range timeSteps {
		if end/s <= 6 {
			step = s
			break
		}
	}
	for end/step > 6 {
		step *= 2
	}
	var out []tick
	for i := range end/step + 1 { // no sum that overflows
		at := i * step
		out = append(out, tick{round1(100 * float64(at) / float64(end)), brief(at)})
	}
	return out
}

// brief is a duration without the units that are 0.
func brief(d time.Duration) string {
	text := d.Round(time.Second).String()
	if t := strings.TrimSuffix(text, "m0s"); t != text {
		text = t + "m"
	}
	if t := strings.TrimSuffix(text, "h0m"); t != text {
		text = t + "h"
	}
	return text
}

// clock is a time of the run: 1:02:03.
func clock(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	sign := ""
	if s < 0 {
		s, sign = -s, "-"
	}
	return fmt.Sprintf("%s%d:%02d:%02d", sign, s/3600, s/60%60, s%60)
}

// path draws a line; it begins anew after a gap. A sample between gaps is a dot.
func path(samples []Sample, end time.Duration, a axis) string {
	var b strings.Builder
	begun := false
	for _, x := range samples {
		if !finite(x.Value) {
			begun = false
			continue
		}
		where := coordinate(xOf(x.At, end)) + " " + coordinate(a.y(x.Value))
		if begun {
			b.WriteString("L" + where)
		} else {
			b.WriteString("M" + where + "h0")
		}
		begun = true
	}
	return b.String()
}

// xOf is where a time is, from the left.
func xOf(at, end time.Duration) float64 {
	return plotWidth * min(max(float64(at)/float64(end), 0), 1)
}

func coordinate(v float64) string { return strconv.FormatFloat(round1(v), 'f', -1, 64) }

func round1(v float64) float64 { return math.Round(v*10) / 10 }

// number shows a value with three or four digits that count.
func number(v float64) string {
	switch abs := math.Abs(v); {
	case abs >= 1e12 || abs > 0 && abs < 0.001:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case abs >= 1000 || v == math.Trunc(v):
		return group(strconv.FormatFloat(v, 'f', 0, 64))
	case abs >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case abs >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// group puts a comma between thousands.
func group(digits string) string {
	begin := strings.TrimLeft(digits, "-")
	sign := digits[:len(digits)-len(begin)]
	whole, rest := begin, ""
	if i := strings.IndexByte(begin, '.'); i >= 0 {
		whole, rest = begin[:i], begin[i:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole + rest
}

// span is a part of a plot that is shaded because of marks; title says which.
type span struct {
	X, Width string
	Title    string
}

// spanWidth is the part of the width within which marks are drawn as one.
const spanWidth = 4.0

// spansOf are those of a kind. Marks that begin at nearly the same place are one span, so that there are at most 251.
func spansOf(all []Mark, kind string, end time.Duration) []span {
	type cell struct {
		from, to float64
		marks    []Mark
	}
	var cells []cell
	last := -1
	for _, m := range all {
		if m.Kind != kind {
			continue
		}
		from := xOf(m.At, end)
		to := max(from+2, xOf(m.End, end))
		if n := int(from / spanWidth); n != last {
			cells, last = append(cells, cell{from: from}), n
		}
		c := &cells[len(cells)-1]
		c.to, c.marks = max(c.to, to), append(c.marks, m)
	}
	out := make([]span, len(cells))
	for i, c := range cells {
		from := min(c.from, plotWidth-2)
		out[i] = span{coordinate(from), coordinate(min(c.to, plotWidth) - from), titleOf(c.marks)}
	}
	return out
}

func titleOf(marks []Mark) string {
	var parts []string
	for i, m := range marks {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("and %d more", len(marks)-i))
			break
		}
		parts = append(parts, clock(m.At)+" "+clean(m.Machine, 30)+" "+clean(m.Text, 120))
	}
	return strings.Join(parts, "; ")
}
