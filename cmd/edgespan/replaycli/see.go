package replaycli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"edgespan/actors/node/cores"
	"edgespan/cmd/term"
	"edgespan/pubsub/tape"
)

// maxLine is the length of a line that shows a step, in characters.
const maxLine = 160

// moment is what --until stops at: the first of these that is set.
type moment struct {
	n       uint64
	at      time.Time
	clock   bool // at is a time of a day that is not known yet
	text    string
	anytime bool // nothing
}

func parseMoment(s string) (moment, error) {
	if s == "" {
		return moment{anytime: true}, nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		if n == 0 {
			return moment{}, errors.New("0: steps begin with 1")
		}
		return moment{n: n}, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return moment{at: at}, nil
	}
	if at, err := time.Parse(time.TimeOnly, s); err == nil {
		return moment{at: at, clock: true}, nil
	}
	return moment{text: s}, nil
}

// begin sets the day of a time of the day, from when the recording begins: it is the next such time. A second begins
// with its first step, since lines have more digits than people type.
func (u *moment) begin(at time.Time) {
	if !u.clock || at.IsZero() {
		return
	}
	u.clock = false
	hour, minute, second := u.at.Clock()
	u.at = time.Date(at.Year(), at.Month(), at.Day(), hour, minute, second, u.at.Nanosecond(), at.Location())
	if u.at.Before(at.Truncate(time.Second)) {
		u.at = u.at.AddDate(0, 0, 1)
	}
}

// fits reports whether a step is what --until waits for.
func (u moment) fits(m tape.Moment) bool {
	switch {
	case u.anytime:
		return false
	case u.n > 0:
		return m.N >= u.n
	case u.clock:
		return false
	case !u.at.IsZero():
		return !m.At.Before(u.at)
	}
	return strings.Contains(string(m.Event), u.text) || strings.Contains(string(m.Said), u.text)
}

func checkCore(s string) error {
	kind, _, _ := strings.Cut(s, "/")
	if _, known := cores.Kinds()[kind]; s != "" && !known {
		var all []string
		for name := range cores.Kinds() {
			all = append(all, name)
		}
		slices.Sort(all)
		return fmt.Errorf("%s: must begin with one of %s", term.Printable(kind), strings.Join(all, ", "))
	}
	return nil
}

// concerns reports whether a step is one of --core.
func (r *replay) concerns(m tape.Moment) bool {
	kind, of, _ := strings.Cut(r.core, "/")
	return r.core == "" || m.Core == kind && strings.HasPrefix(m.Of, of)
}

// see counts and shows one line of the recording. It reports whether the replay goes on.
func (r *replay) see(m tape.Moment) (more bool) {
	r.count(m)
	r.stop.begin(m.At)
	if m.End != "" {
		r.sayf("%s", cut(m.At.Format("15:04:05.000")+"  the recording ends before its daemon: "+m.End))
		return true
	}
	if m.Head != nil || m.Lost > 0 {
		return true
	}
	if m.Core != "" && !r.concerns(m) {
		return true
	}
	if m.Differs || m.State != "" || m.Panics != "" {
		r.showDifference(m)
	} else if r.show || r.step && m.Skip == "" {
		r.sayf("%s", r.line(m))
	}
	if r.stop.fits(m) {
		r.stopped = true
		r.showCore(m)
		return r.step && r.ask(m)
	}
	return !r.step || m.Core == "" || r.ask(m)
}

func (r *replay) count(m tape.Moment) {
	t := &r.total
	if !m.At.IsZero() {
		if t.first.IsZero() {
			t.first = m.At
		}
		if m.At.After(t.last) {
			t.last = m.At
		}
	}
	if m.Head != nil && !slices.Contains(t.versions, m.Head.Version) {
		t.versions = append(t.versions, m.Head.Version)
	}
	t.lost += m.Lost
	switch {
	case m.Core == "":
		return
	case m.Skip != "":
		t.skipped++
		return
	case m.Differs:
		t.differ++
	}
	if m.State != "" {
		t.states++
	}
	t.steps++
	t.cores[name(m)] = true
}

// name is that of a core: its kind, and of what it is.
func name(m tape.Moment) string { return strings.TrimSuffix(m.Core+"/"+m.Of, "/") }

// sayf prints a line.
func (r *replay) sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.Out, format+"\n", args...) // a reader that went away ends the program
}

// line is a step in one line.
func (r *replay) line(m tape.Moment) string {
	if m.Core == "" {
		var e struct{ Kind, Object, Text string }
		if json.Unmarshal(m.Said, &e) != nil {
			e.Text = string(m.Said)
		}
		return cut(fmt.Sprintf("%s  #%d  event  %s  %s  %s", m.At.Format("15:04:05.000"), m.N, e.Kind, e.Object, e.Text))
	}
	var effects []string
	for _, f := range m.Effects {
		effects = append(effects, typeOf(f))
	}
	end := " -> " + strings.Join(effects, ", ")
	switch {
	case m.Skip != "":
		end = " not replayed: " + m.Skip
	case len(effects) == 0:
		end = " -> nothing"
	}
	what := strings.TrimSpace(name(m) + "  " + typeOf(m.Event))
	return cut(fmt.Sprintf("%s  #%d  %s%s", m.At.Format("15:04:05.000"), m.N, what, end))
}

// typeOf is the name of the type of an event or effect, without its package, or the op that it is.
func typeOf(text json.RawMessage) string {
	var held map[string]json.RawMessage
	if json.Unmarshal(text, &held) != nil {
		return cut(string(text))
	}
	for name := range held {
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			return name[i+1:]
		}
	}
	var op struct{ Verb, Kind, ID string }
	if json.Unmarshal(text, &op) == nil && op.Verb+op.ID != "" {
		return strings.TrimSpace(op.Verb + " " + op.Kind + op.ID)
	}
	return ""
}

func cut(s string) string {
	s = term.Printable(s)
	if r := []rune(s); len(r) > maxLine {
		return string(r[:maxLine]) + "…"
	}
	return s
}

func (r *replay) showDifference(m tape.Moment) {
	r.sayf("%s", r.line(m))
	if m.State != "" {
		r.sayf("  another state before it:\n%s", indent(m.State))
	}
	if m.Panics != "" {
		r.sayf("  this version panics: %s", term.Printable(m.Panics))
	} else if m.Differs {
		r.sayf("  this version decides otherwise:\n%s", indent(r.player.Difference(m)))
	}
}

func indent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString("    " + term.Printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// showCore prints the event of a step and its core after it.
func (r *replay) showCore(m tape.Moment) {
	r.sayf("%s", r.line(m))
	if m.Core == "" {
		return
	}
	r.showEvent(m)
	r.print("state", r.player.State(m.Core, m.Of))
}

func (r *replay) showEvent(m tape.Moment) { r.print("event", r.player.Whole(m.Event)) }

func (r *replay) print(what string, v any) {
	text, err := json.MarshalIndent(map[string]any{what: v}, "", "  ")
	if err != nil {
		text = fmt.Appendf(nil, "%v", v)
	}
	for line := range strings.Lines(string(text)) { // whatever it is, it moves no cursor
		r.sayf("%s", term.Printable(strings.TrimSuffix(line, "\n")))
	}
}

// lines are those of a person.
type lines struct{ *bufio.Scanner }

func newLines(in io.Reader) lines { return lines{bufio.NewScanner(in)} }

// ask asks a person what to do before the next step. The end of the input continues.
func (r *replay) ask(m tape.Moment) (more bool) {
	for {
		if !r.input.Scan() {
			r.step = false
			return true
		}
		switch strings.TrimSpace(r.input.Text()) {
		case "", "n":
			return true
		case "s":
			r.showCore(m)
		case "e":
			r.showEvent(m)
		case "c":
			r.step = false
			return true
		case "q":
			return false
		default:
			r.sayf("Enter: the next step; s: the core; e: the event; c: continue; q: end")
		}
	}
}

func versions(all []string) string {
	if len(all) == 0 {
		return "an unknown version"
	}
	return term.Printable(strings.Join(all, ", "))
}
