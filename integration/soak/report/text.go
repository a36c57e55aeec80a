package report

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// What a summary shows at most: together no more than 60 lines.
const (
	maxTextViolations = 14
	maxTextSlopes     = 16
	maxTextCounters   = 12
	textWidth         = 110
)

// Text writes a summary of at most 60 lines for a terminal.
func (r Run) Text(w io.Writer) error {
	var b bytes.Buffer
	line := func(format string, args ...any) { b.WriteString(clean(fmt.Sprintf(format, args...), textWidth) + "\n") }
	line("%s", clean(r.Title, textWidth))
	for _, f := range r.facts() {
		line("  %-11s %s", f.Name, f.Value)
	}
	growths := r.growths()
	line("%s", r.verdict(growths))
	violations := r.violations()
	if len(violations) > 0 {
		line("Violations:")
		for _, v := range violations[:min(len(violations), maxTextViolations)] {
			line("  %s  %s  %s: %s", clock(v.At), clean(v.Machine, 16), clean(v.Invariant, 60), v.Text)
		}
		more(line, len(violations), maxTextViolations)
	}
	if list := growths; len(list) > 0 {
		line("Growth after %s, in percent of the mean an hour:", brief(r.SettledFrom()))
		for _, g := range list[:min(len(list), maxTextSlopes)] {
			line("  %-12s  %-32s  %-18s  %s", clean(g.series.Machine, 11), clean(g.series.Name, 31), g.percent(), g.verdict())
		}
		more(line, len(list), maxTextSlopes)
	}
	if len(r.Counters) > 0 {
		line("Counters:")
		for _, c := range r.Counters[:min(len(r.Counters), maxTextCounters)] {
			line("  %15s  %s", group(fmt.Sprint(c.Value)), clean(c.Name, maxName))
		}
		more(line, len(r.Counters), maxTextCounters)
	}
	if r.Repeat != "" { // whole: it is there to be copied
		b.WriteString("Repeat it with:\n  " + clean(r.Repeat, maxRepeat) + "\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// more says how many of a list are left out.
func more(line func(string, ...any), have, limit int) {
	if have > limit {
		line("  and %s more", group(fmt.Sprint(have-limit)))
	}
}

// percent is the slope with its error.
func (g growth) percent() string {
	if !g.known {
		return "-"
	}
	return fmt.Sprintf("%+.2f ± %.2f", tidy(g.slope.PerHour), g.slope.Error)
}

// tidy has no negative zero.
func tidy(v float64) float64 {
	if math.Abs(v) < 0.005 {
		return 0
	}
	return v
}

// verdict is the result of a run in a sentence or two.
func (r Run) verdict(growths []growth) string {
	text := "No invariant was violated."
	if n := len(r.Violations); n > 0 {
		text = fmt.Sprintf("%s of %s.", plural(n, "violation"), plural(r.invariants(), "invariant"))
	}
	growing := 0
	for _, g := range growths {
		if g.growing {
			growing++
		}
	}
	switch {
	case growing == 1:
		text += " 1 series that must be flat grows."
	case growing > 1:
		text += fmt.Sprintf(" %d series that must be flat grow.", growing)
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return group(fmt.Sprint(n)) + " " + noun + "s"
}

// fact is a property of the run.
type fact struct{ Name, Value string }

func (r Run) facts() []fact {
	began := "-"
	if !r.Begin.IsZero() {
		began = r.Begin.UTC().Format(time.DateTime) + " UTC"
	}
	did := []string{plural(r.Steps, "step"), plural(r.Changes, "change"), plural(r.Faults, "fault")}
	var out []fact
	for _, f := range []fact{
		{"began", began},
		{"length", brief(r.Length)},
		{"seed", fmt.Sprint(r.Seed)},
		{"version", clean(r.Version, maxName)},
		{"release", clean(r.Release, maxName)},
		{"accelerator", clean(r.Accel, maxName)},
		{"did", strings.Join(did, ", ")},
	} {
		if f.Value != "" {
			out = append(out, f)
		}
	}
	return out
}
