package clitest

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"edgespan/platform/tty"
)

// Terminal is a terminal on which a test types, and whose screen it reads.
type Terminal struct {
	t   *testing.T
	Tty *os.File // the program's end
	own *os.File

	mu       sync.Mutex
	cells    [][]rune
	row, col int
	saved    [][]rune // of the first screen, while another one is shown
	savedRow int
	savedCol int
	rest     string // of a sequence or a character that has not come as a whole
	raw      strings.Builder
}

// OpenTerminal opens a terminal of a size. It skips the test on a machine without any.
func OpenTerminal(t *testing.T, width, height int) *Terminal {
	t.Helper()
	own, program, err := tty.Open(width, height)
	if err != nil {
		t.Skipf("no terminals on this machine: %v", err)
	}
	s := &Terminal{t: t, Tty: program, own: own, cells: make([][]rune, height)}
	for i := range s.cells {
		s.cells[i] = blank(width)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for buf := make([]byte, 4096); ; {
			n, err := own.Read(buf)
			if err != nil {
				return // the program's end is closed
			}
			s.show(string(buf[:n]))
		}
	}()
	t.Cleanup(func() {
		_ = own.Close() // a program that reads its end is told
		<-read
		_ = program.Close()
	})
	return s
}

func blank(width int) []rune { return []rune(strings.Repeat(" ", width)) }

// Type types keys.
func (s *Terminal) Type(keys string) {
	s.t.Helper()
	if _, err := s.own.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// Lines returns what the screen shows, without the spaces at the ends of lines and the empty lines at its end.
func (s *Terminal) Lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, line := range s.cells {
		out = append(out, strings.TrimRight(string(line), " "))
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// Raw returns all that the program has written.
func (s *Terminal) Raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw.String()
}

// Until waits until the screen contains a text, and returns it.
func (s *Terminal) Until(text string) string {
	s.t.Helper()
	end := time.Now().Add(20 * time.Second)
	for {
		screen := strings.Join(s.Lines(), "\n")
		if strings.Contains(screen, text) {
			return screen
		}
		if time.Now().After(end) {
			s.t.Fatalf("the screen does not show %q:\n%s", text, screen)
		}
		time.Sleep(time.Millisecond)
	}
}

// show carries out what a program writes: text and the sequences of ECMA-48 that this project and its libraries use.
func (s *Terminal) show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw.WriteString(text)
	text, s.rest = s.rest+text, ""
	for len(text) > 0 {
		if text[0] == 0x1b {
			n := strings.IndexFunc(text[1:], func(r rune) bool { return r >= '@' && r != '[' })
			if n < 0 {
				s.rest = text
				return
			}
			s.sequence(text[1 : n+2])
			text = text[n+2:]
			continue
		}
		if !utf8.FullRuneInString(text) {
			s.rest = text
			return
		}
		r, n := utf8.DecodeRuneInString(text)
		text = text[n:]
		s.put(r)
	}
}

func (s *Terminal) put(r rune) {
	height, width := len(s.cells), len(s.cells[0])
	switch r {
	case '\r':
		s.col = 0
	case '\n':
		s.row++
	case '\b':
		s.col = max(0, s.col-1)
	case 7:
	default:
		if s.col == width {
			s.row, s.col = s.row+1, 0
		}
		s.scroll(height)
		s.cells[s.row][s.col] = r
		s.col++
	}
	s.scroll(height)
}

func (s *Terminal) scroll(height int) {
	for s.row >= height {
		s.cells = append(s.cells[1:], blank(len(s.cells[0])))
		s.row--
	}
}

// sequence carries out an escape sequence without its first character.
func (s *Terminal) sequence(q string) {
	height, width := len(s.cells), len(s.cells[0])
	switch q {
	case "[?1049h": // another screen, and back
		s.saved, s.savedRow, s.savedCol = s.cells, s.row, s.col
		s.cells = make([][]rune, height)
		for i := range s.cells {
			s.cells[i] = blank(width)
		}
		return
	case "[?1049l":
		s.cells, s.row, s.col = s.saved, s.savedRow, s.savedCol
		return
	}
	if q[0] != '[' {
		return
	}
	n, _ := strconv.Atoi(q[1 : len(q)-1])
	switch many := max(1, n); q[len(q)-1] {
	case 'A':
		s.row = max(0, s.row-many)
	case 'B':
		s.row = min(height-1, s.row+many)
	case 'C':
		s.col = min(width-1, s.col+many)
	case 'D':
		s.col = max(0, s.col-many)
	case 'H':
		s.row, s.col = 0, 0
	case 'K':
		for i := s.col; i < width; i++ {
			s.cells[s.row][i] = ' '
		}
	case 'J':
		for i := s.row; i < height; i++ {
			for j := range s.cells[i] {
				if i > s.row || j >= s.col {
					s.cells[i][j] = ' '
				}
			}
		}
	}
}
