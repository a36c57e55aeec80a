package top

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Screen is what a person has chosen to see of a Model: where the cursor is, a filter, or the text about one object.
type Screen struct {
	filter string
	typing bool // the filter
	byName bool // instead of what needs attention first
	focus  int  // number of the section with the cursor
	row    int  // in it
	text   *Text
	offset int // of the text
}

// Text is shown instead of the overview.
type Text struct {
	Title string
	Lines []string
}

// Ask is what a key asks for beyond the screen.
type Ask struct {
	Quit   bool
	Kind   string // explain the object, or show the resource of an actor
	ID     string
	Events bool // show events, of the object if there is one
}

// Keys that are not characters.
const (
	KeyUp = '\uE000' + iota // private characters, which no terminal sends
	KeyDown
	KeyPageUp
	KeyPageDown
	KeyEnter
	KeyTab
	KeyBack
	KeyEscape
)

var helpText = Text{Title: "keys", Lines: []string{
	"up, down, k, j    move in a list or a text",
	"tab               the next list",
	"enter             explain the object; of an actor, what it does",
	"e                 events of the object; E of all",
	"/                 filter the lists by a text; escape ends it",
	"s                 sort by name, or what needs attention first",
	"q                 back, and from the lists: end",
}}

// waiting is the title of a text that has been asked for.
const waiting = "asks the daemon"

// IsWaiting reports whether a text has been asked for and not shown.
func (s *Screen) IsWaiting() bool { return s.text != nil && s.text.Title == waiting }

// Show replaces the overview by a text.
func (s *Screen) Show(t Text) { s.text, s.offset = &t, 0 }

// Key takes a key in.
func (s *Screen) Key(key rune, m *Model) Ask {
	switch {
	case s.typing:
		s.typed(key)
		return Ask{}
	case s.text != nil:
		return s.keyInText(key)
	}
	sections := s.sections(m, true)
	rows := sections[s.focus].rows
	switch key {
	case 'q', 3, 4: // Ctrl-C and Ctrl-D in raw mode
		return Ask{Quit: true}
	case KeyTab:
		s.focus, s.row = (s.focus+1)%len(sections), 0
	case '/':
		s.typing, s.filter, s.row = true, "", 0
	case KeyEscape:
		s.filter, s.row = "", 0
	case 's':
		s.byName, s.row = !s.byName, 0
	case '?':
		s.Show(helpText)
	case 'E':
		return Ask{Events: true}
	case KeyEnter, 'e':
		if len(rows) > 0 {
			return Ask{Kind: sections[s.focus].kind, ID: rows[s.at(rows)].id, Events: key == 'e'}
		}
	}
	s.row = min(max(s.row+move(key), 0), max(0, len(s.sections(m, true)[s.focus].rows)-1))
	return Ask{}
}

// at returns the row of the cursor: rows may have gone.
func (s *Screen) at(rows []row) int { return min(s.row, max(0, len(rows)-1)) }

func (s *Screen) typed(key rune) {
	switch {
	case key == KeyEnter:
		s.typing = false
	case key == KeyEscape || key == 3:
		s.typing, s.filter = false, ""
	case key == KeyBack:
		if r := []rune(s.filter); len(r) > 0 {
			s.filter = string(r[:len(r)-1])
		}
	case unicode.IsPrint(key) && key < KeyUp && len(s.filter) < 60:
		s.filter += string(key)
	}
}

func (s *Screen) keyInText(key rune) Ask {
	switch key {
	case 'q', KeyEscape, KeyBack, KeyEnter:
		s.text = nil
	case 3, 4:
		return Ask{Quit: true}
	}
	s.offset += move(key)
	return Ask{}
}

// move returns how many lines down a key moves.
func move(key rune) int {
	switch key {
	case KeyUp, 'k':
		return -1
	case KeyDown, 'j':
		return 1
	case KeyPageUp:
		return -10
	case KeyPageDown:
		return 10
	}
	return 0
}

// sections returns those of a model as the person wants them.
func (s *Screen) sections(m *Model, ascii bool) []section {
	all := m.sections(ascii)
	for i := range all {
		if s.filter != "" {
			all[i].rows = slices.DeleteFunc(all[i].rows, func(r row) bool {
				return !strings.Contains(strings.ToLower(strings.Join(r.cells, " ")), strings.ToLower(s.filter))
			})
		}
		if s.byName {
			slices.SortStableFunc(all[i].rows, func(a, b row) int { return strings.Compare(a.cells[0], b.cells[0]) })
		}
	}
	return all
}

// Lines returns the screen: exactly height lines of at most width characters, the last one with the keys.
func (s *Screen) Lines(m *Model, width, height int, ascii bool) []string {
	out := s.body(m, width, max(1, height-1), ascii)
	for len(out) < height-1 {
		out = append(out, "")
	}
	out = append(out[:max(0, height-1)], s.footer())
	for i, l := range out {
		out[i] = strings.TrimRight(fit(l, width, ascii), " ")
	}
	return out
}

func (s *Screen) footer() string {
	switch {
	case s.typing:
		return "/" + s.filter + "_  enter: keep, escape: all"
	case s.text != nil:
		return "q back   j k move"
	case s.filter != "":
		return "only with \"" + s.filter + "\"   escape: all   ? keys   q end"
	}
	return "tab list   enter explain   e events   / filter   s sort   ? keys   q end"
}

func (s *Screen) body(m *Model, width, height int, ascii bool) []string {
	if s.text != nil {
		return s.textLines(m, width, height)
	}
	sections := s.sections(m, ascii)
	out := []string{m.status(m.sections(ascii))}
	room := height - 1
	for i, x := range sections {
		cursor := -1
		if i == s.focus {
			cursor = s.at(x.rows)
		}
		lines := x.linesAround(max(room/(len(sections)-i), 2), cursor)
		room -= len(lines)
		out = append(out, lines...)
	}
	return out[:min(len(out), height)]
}

// linesAround returns at most room lines, with the row of the cursor, if it is 0 or more, marked.
func (s section) linesAround(room, cursor int) []string {
	out := []string{"  " + s.line(s.head)}
	if room == 2 && cursor >= 0 && len(s.rows) > 0 { // no line to count the others
		return append(out, "> "+s.line(s.rows[cursor].cells))
	}
	first := max(0, min(cursor-(room-3), len(s.rows)-(room-1)))
	for i := first; i < len(s.rows); i++ {
		if len(out) == room-1 && i < len(s.rows)-1 {
			return append(out, fmt.Sprintf("    %d more", len(s.rows)-i))
		}
		mark := "  "
		if i == cursor {
			mark = "> "
		}
		out = append(out, mark+s.line(s.rows[i].cells))
	}
	return out
}

// textLines returns the part of the text that fits, below the state of the daemon.
func (s *Screen) textLines(m *Model, width, height int) []string {
	var wrapped []string
	for _, l := range s.text.Lines {
		wrapped = append(wrapped, wrap(l, width)...)
	}
	room := max(1, height-2)
	s.offset = max(0, min(s.offset, len(wrapped)-room))
	out := []string{m.status(m.sections(true)), s.text.Title}
	return append(out, wrapped[s.offset:min(len(wrapped), s.offset+room)]...)
}

// wrap breaks a line into lines of at most width characters.
func wrap(line string, width int) (out []string) {
	r := []rune(line)
	for width > 0 && len(r) > width {
		out, r = append(out, string(r[:width])), r[width:]
	}
	return append(out, string(r))
}
