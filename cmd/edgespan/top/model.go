package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

// Kinds are what a frame shows, in the order of the screen.
var Kinds = []string{"port", "ni", "app", "actor"}

// hanging is how long an actor may handle one message before it needs attention.
const hanging = 2 * time.Second

// history is how many latencies of an uplink a sparkline shows.
const history = 20

// Sample is what one look at the daemon brought. Err says that it did not answer; the rest is empty then.
type Sample struct {
	At    time.Time
	Items map[string][]nodeapi.Resource
	Err   error
}

// Model is what top knows: the last sample that arrived, and the latencies before it.
type Model struct {
	last      Sample
	lost      error     // why the last look failed
	lostSince time.Time // when looks began to fail
	latencies map[string][]float64
}

// Add takes a sample in. What was known stays on the screen while the daemon is away.
func (m *Model) Add(s Sample) {
	if s.Err != nil {
		if m.lost == nil {
			m.lostSince = s.At
		}
		m.lost = s.Err
		return
	}
	m.last, m.lost = s, nil
	kept := map[string][]float64{} // a port that is gone takes its past along
	for _, r := range s.Items["port"] {
		p := nodeapi.As(r.Status, nodeapi.PortStatus{})
		all := append(slices.Clone(m.latencies[r.ID]), p.LatencyMs)
		kept[r.ID] = all[max(0, len(all)-history):]
	}
	m.latencies = kept
}

// row is one line of a section. A row that needs attention sorts first, so that a small screen shows it.
type row struct {
	id    string // of the resource
	bad   bool
	cells []string
}

// section is one kind with its columns; the last one takes the width that is left.
type section struct {
	kind   string // of its resources
	title  string
	head   []string
	widths []int
	rows   []row
}

// Lines returns the screen, at most height lines of at most width characters. ascii draws sparklines without UTF-8.
func (m *Model) Lines(width, height int, ascii bool) []string {
	sections := m.sections(ascii)
	out := []string{m.status(sections)}
	room := height - 1
	for i, s := range sections {
		// Each section gets its share of what is left, so that a hundred networks don't hide the actors.
		share := max(room/(len(sections)-i), 2)
		lines := s.lines(share)
		room -= len(lines)
		out = append(out, lines...)
	}
	out = out[:min(len(out), max(height, 1))]
	for i, l := range out {
		out[i] = strings.TrimRight(fit(l, width, ascii), " ")
	}
	return out
}

// sections returns what is shown, in the order of Kinds.
func (m *Model) sections(ascii bool) []section {
	return []section{m.uplinks(ascii), m.networks(), m.apps(), m.actors()}
}

// status is the first line: whether the daemon answers, and how much is wrong.
func (m *Model) status(sections []section) string {
	var counts []string
	for _, s := range sections {
		bad := 0
		for _, r := range s.rows {
			if r.bad {
				bad++
			}
		}
		text := fmt.Sprintf("%d %s", len(s.rows), s.title)
		if bad > 0 {
			text += fmt.Sprintf(" (%d not well)", bad)
		}
		counts = append(counts, text)
	}
	line := "edgespan  " + m.last.At.UTC().Format("15:04:05") + "  " + strings.Join(counts, ", ")
	if m.lost == nil {
		return line
	}
	since := "no answer since " + m.lostSince.UTC().Format("15:04:05") + ": " + term.Printable(m.lost.Error())
	if m.last.At.IsZero() {
		return "edgespan  " + since
	}
	return "edgespan  " + since + "  (below: " + m.last.At.UTC().Format("15:04:05") + ")"
}

func (m *Model) uplinks(ascii bool) section {
	s := section{kind: "port", title: "ports", head: []string{"PORT", "STATE", "LOSS", "LATENCY", "PAST", "PROBE"},
		widths: []int{12, 8, 5, 9, history}}
	for _, r := range m.last.Items["port"] {
		p := nodeapi.As(r.Status, nodeapi.PortStatus{Exists: true})
		state := "down"
		if !p.Exists {
			state = "missing"
		} else if p.Up {
			state = "up"
		}
		loss, latency := "-", "-"
		if p.Loss > 0 || p.LatencyMs > 0 {
			loss = fmt.Sprintf("%d%%", p.Loss)
		}
		if p.LatencyMs > 0 {
			latency = fmt.Sprintf("%.1f ms", p.LatencyMs)
		}
		s.add(r.ID, state != "up" || p.Error != "" || p.Loss > 0, r.ID, state, loss, latency,
			Sparkline(m.latencies[r.ID], ascii), cmp.Or(p.Error, p.Probe))
	}
	return s.sorted()
}

func (m *Model) networks() section {
	s := section{kind: "ni", title: "networks", head: []string{"NETWORK", "STATE", "BRIDGE", "PORT", "ERROR"},
		widths: []int{20, 22, 7, 10}}
	for _, r := range m.last.Items["ni"] {
		n := nodeapi.As(r.Status, nodeapi.NetworkStatus{})
		s.add(r.ID, n.State != "Present" || n.Error != "" || n.Warning != "", cmp.Or(n.DisplayName, r.ID), n.State, n.Bridge,
			n.Port, cmp.Or(n.Error, n.Warning))
	}
	return s.sorted()
}

func (m *Model) apps() section {
	s := section{kind: "app", title: "apps", head: []string{"APP", "STATE", "ADAPTERS", "ERROR"},
		widths: []int{20, 22, 10}}
	for _, r := range m.last.Items["app"] {
		a := nodeapi.As(r.Status, nodeapi.AppStatus{Pending: true})
		state, active := "inactive", 0
		if a.Pending {
			state = "pending"
		} else if a.Activated {
			state = "ready"
		}
		for _, x := range a.Adapters {
			if x.Activated {
				active++
			}
		}
		s.add(r.ID, state != "ready" || a.Error != "", cmp.Or(a.DisplayName, r.DisplayName(), r.ID), state,
			fmt.Sprintf("%d/%d", active, len(a.Adapters)), a.Error)
	}
	return s.sorted()
}

func (m *Model) actors() section {
	s := section{kind: "actor", title: "actors", head: []string{"ACTOR", "STATE", "RESTARTS", "WAITING", "NOW"},
		widths: []int{28, 11, 9, 8}}
	names := m.names()
	for _, r := range m.last.Items["actor"] {
		a := nodeapi.As(r.Status, nodeapi.ActorStatus{})
		now := a.Last
		if a.Now != "" {
			now = a.Now + " for " + max(0, m.last.At.Sub(a.NowSince)).Round(100*time.Millisecond).String()
		}
		hangs := a.Now != "" && m.last.At.Sub(a.NowSince) > hanging
		s.add(r.ID, a.State != "running" || hangs, named(r.ID, names), a.State, fmt.Sprint(a.Crashes),
			fmt.Sprint(a.Waiting), now)
	}
	return s.sorted()
}

// names returns the display names of networks and apps by UUID.
func (m *Model) names() map[string]string {
	names := map[string]string{}
	for _, r := range m.last.Items["ni"] {
		names[r.ID] = nodeapi.As(r.Status, nodeapi.NetworkStatus{}).DisplayName
	}
	for _, r := range m.last.Items["app"] {
		names[r.ID] = nodeapi.As(r.Status, nodeapi.AppStatus{}).DisplayName
	}
	return names
}

// named returns the path of an actor with names in place of UUIDs.
func named(id string, names map[string]string) string {
	parts := strings.Split(id, "/")
	for i, p := range parts {
		parts[i] = cmp.Or(names[p], p)
	}
	return strings.Join(parts, "/")
}

func (s *section) add(id string, bad bool, cells ...string) {
	for i, c := range cells {
		cells[i] = term.Printable(cmp.Or(c, "-"))
	}
	s.rows = append(s.rows, row{id, bad, cells})
}

// sorted returns the section with what needs attention first, then by name.
func (s section) sorted() section {
	slices.SortStableFunc(s.rows, func(a, b row) int {
		if a.bad != b.bad {
			if a.bad {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.cells[0], b.cells[0])
	})
	return s
}

// lines returns at most room lines; the last one counts the rows that have none.
func (s section) lines(room int) []string {
	out := []string{s.line(s.head)}
	for i, r := range s.rows {
		if len(out) == room-1 && i < len(s.rows)-1 {
			return append(out, fmt.Sprintf("  %d more", len(s.rows)-i))
		}
		out = append(out, s.line(r.cells))
	}
	return out
}

func (s section) line(cells []string) string {
	var b strings.Builder
	for i, c := range cells {
		if i < len(s.widths) {
			c = pad(c, s.widths[i]) + " "
		}
		b.WriteString(c)
	}
	return b.String()
}

func pad(text string, width int) string {
	text = fit(text, width, true)
	return text + strings.Repeat(" ", width-utf8.RuneCountInString(text))
}

// fit cuts text to a width.
func fit(text string, width int, ascii bool) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	end := "…"
	if ascii {
		end = "~"
	}
	return string([]rune(text)[:max(width-1, 0)]) + end
}

// Sparkline draws values between 0 and the largest of them. A value of 0 was not measured and leaves a gap.
func Sparkline(values []float64, ascii bool) string {
	steps := []rune("▁▂▃▄▅▆▇█")
	if ascii {
		steps = []rune("_.-=+*%#")
	}
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	var b strings.Builder
	for _, v := range values {
		if !(v > 0) { // also NaN
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(steps[min(int(v/top*float64(len(steps))), len(steps)-1)])
	}
	return b.String()
}
