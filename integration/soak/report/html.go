package report

import (
	"bytes"
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"math"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// colours is how many colours of lines the page has; further machines repeat them with dashes.
const colours = 6

// The page's parts, each with texts that are cleaned; the template escapes them.
type (
	view struct {
		Title, Verdict, Settled, Repeat string
		Good                            bool
		Facts                           []fact
		Violations                      []row
		MoreViolations                  int
		Slopes                          []slopeRow
		Counters                        []fact
		Plots                           []plot
		MorePlots                       int
		Marks                           []row
		MoreMarks                       int
	}
	row      struct{ At, Machine, Kind, Text string }
	slopeRow struct {
		Machine, Name, Percent, Verdict string
		Samples                         int
		Growing                         bool
	}
	plot struct {
		Name, Unit string
		YTicks     []tick
		Lines      []line
		More       int
		XTicks     []tick
		Faults     []span
		Broken     []span
	}
	line struct{ Class, Path, Machine, Range string }
)

// HTML writes the report as one file that needs nothing else: no network and no script.
func (r Run) HTML(w io.Writer) error {
	var b bytes.Buffer
	if err := page.Execute(&b, r.view()); err != nil {
		return fmt.Errorf("render the report: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (r Run) view() view {
	growths := r.growths()
	v := view{
		Title: clean(r.Title, maxText), Verdict: r.verdict(growths), Settled: brief(r.SettledFrom()),
		Repeat: clean(r.Repeat, maxRepeat), Good: len(r.Violations) == 0, Facts: r.facts(),
	}
	if v.Title == "" {
		v.Title = "Soak"
	}
	violations := r.violations()
	for _, x := range violations[:min(len(violations), maxViolations)] {
		v.Violations = append(v.Violations, row{clock(x.At), clean(x.Machine, maxName), clean(x.Invariant, maxText),
			clean(x.Text, maxText)})
	}
	v.MoreViolations = len(violations) - len(v.Violations)
	for _, g := range growths[:min(len(growths), maxQuantities*maxMachines)] {
		v.Slopes = append(v.Slopes, slopeRow{clean(g.series.Machine, maxName), clean(g.series.Name, maxName), g.percent(),
			g.verdict(), g.slope.Samples, g.growing})
		v.Good = v.Good && !g.growing
	}
	for _, c := range r.Counters[:min(len(r.Counters), maxCounters)] {
		v.Counters = append(v.Counters, fact{clean(c.Name, maxName), group(fmt.Sprint(c.Value))})
	}
	r.addPlots(&v)
	all := r.timeline()
	shown := shorten(all, maxMarks)
	for _, m := range shown {
		at := clock(m.At)
		if m.End > m.At {
			at += "–" + clock(m.End)
		}
		v.Marks = append(v.Marks, row{at, clean(m.Machine, maxName), clean(m.Kind, 20), clean(m.Text, maxText)})
	}
	v.MoreMarks = len(all) - len(shown)
	return v
}

func (r Run) addPlots(v *view) {
	end, marks, class := r.end(), r.timeline(), r.classes()
	ticks, faults, broken := timeTicks(end), spansOf(marks, kindFault, end), spansOf(marks, kindViolation, end)
	all := r.quantities()
	for _, q := range all[:min(len(all), maxQuantities)] {
		p := plot{Name: clean(q.name, maxName), Unit: clean(q.unit, 20), XTicks: ticks, Faults: faults, Broken: broken}
		shown := q.series[:min(len(q.series), maxMachines)]
		p.More = len(q.series) - len(shown)
		low, high := math.Inf(1), math.Inf(-1)
		for _, s := range shown {
			l, h, _ := rangeOf(s.Samples)
			low, high = min(low, l), max(high, h)
		}
		a := axisOf(low, high)
		p.YTicks = a.ticks()
		for _, s := range shown {
			p.Lines = append(p.Lines, line{class[s.Machine], path(downsample(s.Samples, end), end, a),
				clean(s.Machine, maxName), rangeText(s.Samples)})
		}
		v.Plots = append(v.Plots, p)
	}
	v.MorePlots = len(all) - len(v.Plots)
}

// classes are the classes of the machines' lines, the same in each plot.
func (r Run) classes() map[string]string {
	out := map[string]string{}
	for _, s := range r.Series {
		if _, ok := out[s.Machine]; !ok {
			n := len(out)
			out[s.Machine] = fmt.Sprintf("c%d d%d", n%colours, n/colours%4)
		}
	}
	return out
}

// rangeOf has the infinities the wrong way round if nothing was measured.
func rangeOf(samples []Sample) (low, high, mean float64) {
	low, high = math.Inf(1), math.Inf(-1)
	n := 0.0
	for _, x := range samples {
		if finite(x.Value) {
			n++
			low, high = min(low, x.Value), max(high, x.Value)
			mean += x.Value/n - mean/n
		}
	}
	return low, high, mean
}

func rangeText(samples []Sample) string {
	low, high, mean := rangeOf(samples)
	if low > high {
		return "not measured"
	}
	return fmt.Sprintf("%s to %s, mean %s", number(low), number(high), number(mean))
}
