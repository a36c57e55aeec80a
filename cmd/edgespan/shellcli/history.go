package shellcli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// historyLimit is how many lines are kept, the newest ones.
const historyLimit = 500

// history are the lines that were typed, also by earlier shells of this user. A disk that takes none costs the history
// of later shells.
type history struct {
	path  string // "" for none
	lines []string
}

// openHistory reads the lines of earlier shells.
func openHistory(env func(string) string) *history {
	folder := env("XDG_STATE_HOME")
	if folder == "" && env("HOME") != "" {
		folder = filepath.Join(env("HOME"), ".local", "state")
	}
	if !filepath.IsAbs(folder) {
		return &history{}
	}
	h := &history{path: filepath.Join(folder, "edgespan", "shell_history")}
	text, err := os.ReadFile(h.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return &history{}
	}
	for line := range strings.Lines(string(text)) {
		h.lines = append(h.lines, strings.TrimSuffix(line, "\n"))
	}
	h.lines = h.lines[max(0, len(h.lines)-historyLimit):]
	return h
}

// Add keeps a line, unless it is the same as the one before.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || strings.Contains(line, "\n") || h.Len() > 0 && h.At(0) == line {
		return
	}
	h.lines = append(h.lines, line)
	h.lines = slices.Clone(h.lines[max(0, len(h.lines)-historyLimit):])
	if h.path == "" {
		return
	}
	if os.MkdirAll(filepath.Dir(h.path), 0o700) != nil ||
		os.WriteFile(h.path, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600) != nil {
		h.path = ""
	}
}

// Len returns how many lines there are, and At one of them, the newest being 0.
func (h *history) Len() int        { return len(h.lines) }
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }
