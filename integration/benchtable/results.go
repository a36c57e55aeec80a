package main

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The units that every benchmark may report: a value beside that of something else in the same run, and by how much it
// would differ if it were measured again. The noise of another unit has its name and noiseSuffix.
const (
	ratioUnit   = "ratio"
	noiseUnit   = "noise"
	noiseSuffix = "-noise"
)

// result is what a benchmark reported, in all its runs.
type result struct {
	name    string   // PACKAGE.BENCHMARK
	units   []string // in the order of the line
	values  map[string][]float64
	skipped string // why
}

var (
	resultLine = regexp.MustCompile(`^\s*(?:(Benchmark\S*)\s+)?(\d+)\t(.*\S)\s*$`)
	nameLine   = regexp.MustCompile(`^(Benchmark[^\s:]*)(?:\s|$)`)
	skipLine   = regexp.MustCompile(`^\s*(Benchmark[^\s:]*): skipped: (.*)$`)
	endLine    = regexp.MustCompile(`^(?:ok|FAIL)\s+[^/\s]+/(\S+)`)
	procSuffix = regexp.MustCompile(`-\d+$`)
)

// parseResults reads the output of go test -bench. What a benchmark prints by itself may stand between its name and its
// values.
func parseResults(text string) []*result {
	var list []*result
	pkg, last := "", ""
	at := func(name string) *result {
		name = pkg + "." + strings.TrimPrefix(procSuffix.ReplaceAllString(name, ""), "Benchmark")
		i := slices.IndexFunc(list, func(r *result) bool { return r.name == name })
		if i < 0 {
			list, i = append(list, &result{name: name, values: map[string][]float64{}}), len(list)
		}
		return list[i]
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if p, ok := strings.CutPrefix(line, "pkg: "); ok {
			_, pkg, _ = strings.Cut(p, "/") // without the module
			continue
		}
		if m := endLine.FindStringSubmatch(line); m != nil {
			for _, r := range list { // go test names the package only before the first result
				if strings.HasPrefix(r.name, ".") {
					r.name = m[1] + r.name
				}
			}
			pkg = ""
		}
		if m := skipLine.FindStringSubmatch(line); m != nil {
			at(m[1]).skipped = m[2]
			continue
		}
		m := resultLine.FindStringSubmatch(line)
		if m == nil {
			if n := nameLine.FindStringSubmatch(line); n != nil {
				last = n[1]
			}
			continue
		}
		name := m[1]
		if name == "" {
			name = last
		}
		if name != "" {
			at(name).add(m[3])
		}
		last = ""
	}
	return list
}

// add reads pairs of a value and a unit.
func (r *result) add(text string) {
	fields := strings.Fields(text)
	for i := 0; i+1 < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return
		}
		unit := fields[i+1]
		if r.values[unit] == nil {
			r.units = append(r.units, unit)
		}
		r.values[unit] = append(r.values[unit], v)
	}
}

// value is the median of a unit over all runs.
func (r *result) value(unit string) (float64, bool) {
	list := slices.Sorted(slices.Values(r.values[unit]))
	if len(list) == 0 {
		return 0, false
	}
	return list[len(list)/2], true
}

// noise is by how much a unit is uncertain: what the benchmark says of it, or half of the range of its runs,
// whichever is more.
func (r *result) noise(unit string) float64 {
	spread := 0.0
	if list := r.values[unit]; len(list) > 1 {
		spread = (slices.Max(list) - slices.Min(list)) / 2
	}
	name := unit + noiseSuffix
	if unit == ratioUnit {
		name = noiseUnit
	}
	if own, ok := r.value(name); ok {
		spread = max(spread, own)
	}
	return spread
}

// row is a line of the table.
type row struct{ name, value, ratio, bar, verdict string }

const (
	okVerdict, noisyVerdict      = "ok", "unclear: within noise"
	missedVerdict, failedVerdict = "MISSED", "FAILED"
	noResult                     = failedVerdict + ": no result"
)

// compareAll makes a row for each bar of each benchmark, and one for each benchmark without a bar.
func compareAll(results []*result, bars []bar) []row {
	var rows []row
	used := make([]bool, len(bars))
	for _, r := range results {
		barred := false
		for i, b := range bars {
			if !b.name.MatchString(r.name) {
				continue
			}
			used[i], barred = true, true
			rows = append(rows, r.compare(b, results))
		}
		if !barred {
			rows = append(rows, r.row(""))
		}
	}
	for i, b := range bars {
		if !used[i] {
			rows = append(rows, row{name: b.text, bar: b.String(), verdict: noResult})
		}
	}
	return rows
}

// present leaves out the bars that have no result.
func present(rows []row) []row {
	return slices.DeleteFunc(rows, func(r row) bool { return r.verdict == noResult })
}

func (r *result) compare(b bar, results []*result) row {
	line := r.row(b.unit)
	line.bar = b.String()
	if r.skipped != "" {
		return line
	}
	v, ok := r.value(b.unit)
	noise := r.noise(b.unit)
	if b.times != "" {
		i := slices.IndexFunc(results, func(o *result) bool { return o.name == b.times })
		if i < 0 {
			line.verdict = noResult + " of " + b.times
			return line
		}
		base, found := results[i].value(b.unit)
		ok = ok && found && base > 0
		v, noise = v/base, (noise+v/base*results[i].noise(b.unit))/base
		line.ratio = uncertain(v, noise)
	}
	if !ok {
		line.verdict = noResult
		return line
	}
	over := v - b.limit
	if b.least {
		over = -over
	}
	switch {
	case over <= 0:
		line.verdict = okVerdict
	case over <= noise:
		line.verdict = noisyVerdict
	default:
		line.verdict = missedVerdict
	}
	return line
}

// spell is a value with its unit; nanoseconds in a unit that fits.
func spell(v, noise float64, unit string) string {
	if rest, ok := strings.CutPrefix(unit, "ns/"); ok {
		scale, name := 1.0, "ns/"
		for _, s := range []struct {
			scale float64
			name  string
		}{{1e3, "µs/"}, {1e6, "ms/"}, {1e9, "s/"}} {
			if v >= s.scale {
				scale, name = s.scale, s.name
			}
		}
		v, noise, unit = v/scale, noise/scale, name+rest
	}
	return uncertain(v, noise) + " " + unit
}

// uncertain is a value with its noise, if it has any.
func uncertain(v, noise float64) string {
	if noise == 0 {
		return number(v)
	}
	return number(v) + " ± " + number(noise)
}

// row is a result without a verdict. Its value is that of the bar's unit, or for a ratio the first other one.
func (r *result) row(unit string) row {
	line := row{name: r.name}
	if r.skipped != "" {
		line.verdict = "skipped: " + r.skipped
		return line
	}
	if v, ok := r.value(ratioUnit); ok && (unit == ratioUnit || unit == "") {
		line.ratio = uncertain(v, r.noise(ratioUnit))
	}
	if unit == "" || unit == ratioUnit {
		unit = r.main()
	}
	if v, ok := r.value(unit); ok {
		line.value = spell(v, r.noise(unit), unit)
	}
	return line
}

// main is the unit that says most of a benchmark: the first that is neither its ratio nor a time of nothing, which is
// what the testing package prints where a benchmark reports its own.
func (r *result) main() string {
	for _, prefer := range []string{"pps", "rules", "ms/ours", "ms/network-ours", "ms-ours", "us-ours"} {
		if r.values[prefer] != nil {
			return prefer
		}
	}
	for _, u := range r.units {
		if v, _ := r.value(u); u != ratioUnit && u != noiseUnit && !strings.HasSuffix(u, noiseSuffix) && v != 0 {
			return u
		}
	}
	return ""
}

// number is a value with three digits that count.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return trim(strconv.FormatFloat(v, 'f', 1, 64))
	case a >= 0.1:
		return trim(strconv.FormatFloat(v, 'f', 2, 64))
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
}

func trim(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") }

// printTable prints the rows as Markdown and returns how many fail.
func printTable(out io.Writer, rows []row) (failed int) {
	rows = append([]row{{"benchmark", "value", "ratio", "bar", "verdict"}, {"---", "---", "---", "---", "---"}}, rows...)
	var width [5]int
	for _, r := range rows {
		for i, c := range r.cells() {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for _, r := range rows {
		for i, c := range r.cells() {
			fmt.Fprintf(out, "| %s%s ", c, strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)))
		}
		fmt.Fprintln(out, "|")
		if r.verdict == missedVerdict || strings.HasPrefix(r.verdict, failedVerdict) {
			failed++
		}
	}
	return failed
}

func (r row) cells() [5]string { return [5]string{r.name, r.value, r.ratio, r.bar, r.verdict} }
