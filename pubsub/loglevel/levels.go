// Package loglevel owns the lowest level of the log lines of each subsystem of a program: the configured level of all,
// and overrides that an operator sets for a while at run time. An override reverts by itself and survives no restart.
//
// It never writes a line: a logger asks it, and pays one atomic load and, with overrides, a lookup.
package loglevel

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Level is a level of log lines, with zap's numbers.
type Level int8

// The levels.
const (
	Debug Level = iota - 1
	Info
	Warn
	Error
)

var words = []string{"debug", "info", "warn", "error"}

// Words returns the words of the levels, from the lowest.
func Words() []string { return slices.Clone(words) }

// Parse returns the level of a word.
func Parse(word string) (Level, bool) {
	i := slices.Index(words, word)
	return Level(i) + Debug, i >= 0
}

// String returns the level's word.
func (l Level) String() string {
	if i := int(l - Debug); i >= 0 && i < len(words) {
		return words[i]
	}
	return fmt.Sprintf("level %d", int8(l))
}

// All is the name of all subsystems together.
const All = "all"

// Bounds of an override's time.
const (
	DefaultFor = 10 * time.Minute
	MaxFor     = 24 * time.Hour
)

// Setting is the level of one subsystem.
type Setting struct {
	Subsystem string    `json:"subsystem"`      // or All
	Level     string    `json:"level"`          // debug, info, warn or error
	Until     time.Time `json:"until,omitzero"` // when its override ends; absent without one
	By        string    `json:"by,omitempty"`   // who set it
}

// Change sets or ends an override.
type Change struct {
	Subsystem string // or All
	Level     string // "reset" ends the override
	For       time.Duration
	By        string
}

// Reset is the Level of a Change that ends an override.
const Reset = "reset"

// Levels are the levels of one program.
type Levels struct {
	names   []string
	current atomic.Pointer[table]

	mu      sync.Mutex
	base    Level // configured
	set     map[string]override
	changed func(Change)
}

type override struct {
	level Level
	until time.Time
	by    string
	timer *time.Timer
}

// table is what the loggers ask. It is never changed.
type table struct {
	least Level // of all
	all   Level
	of    map[string]Level // by subsystem; nil without overrides
}

// New returns the levels of a program with these subsystems. changed gets each change, before a line can depend on it;
// one that ends by time has the Level Reset and no By.
func New(names []string, base Level, changed func(Change)) *Levels {
	l := &Levels{names: slices.Sorted(slices.Values(names)), base: base, set: map[string]override{}, changed: changed}
	l.publish()
	return l
}

// Least returns the lowest level of any subsystem.
func (l *Levels) Least() Level { return l.current.Load().least }

// Enabled reports whether lines of a level are written by a logger. Its subsystem is its name up to the first dot.
func (l *Levels) Enabled(logger string, level Level) bool {
	t := l.current.Load()
	if t.of == nil {
		return level >= t.all
	}
	name, _, _ := strings.Cut(logger, ".")
	if lowest, ok := t.of[name]; ok {
		return level >= lowest
	}
	return level >= t.all
}

// SetBase sets the configured level of all.
func (l *Levels) SetBase(to Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base = to
	l.publish()
}

// Check returns what is wrong with a change, with its field; "" for nothing.
func (l *Levels) Check(c Change) (field, problem string) {
	if c.Subsystem != All && !slices.Contains(l.names, c.Subsystem) {
		return "subsystem", fmt.Sprintf("invalid value %.40q: must be %s or %s", c.Subsystem,
			strings.Join(l.names, ", "), All)
	}
	if _, ok := Parse(c.Level); !ok && c.Level != Reset {
		return "level", fmt.Sprintf("invalid value %.40q: must be %s or %s", c.Level, strings.Join(words, ", "), Reset)
	}
	if c.For < 0 || c.For > MaxFor {
		return "for", fmt.Sprintf("invalid value %v: must be at most %v", c.For, MaxFor)
	}
	return "", ""
}

// Set carries out a change that Check accepts. One of All replaces the overrides of all subsystems.
func (l *Levels) Set(c Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.Level == Reset:
		c.For = 0
	case c.For == 0:
		c.For = DefaultFor
	}
	l.changed(c)
	for name := range l.set {
		if c.Subsystem == All || name == c.Subsystem {
			l.set[name].timer.Stop()
			delete(l.set, name)
		}
	}
	if level, ok := Parse(c.Level); ok {
		o := override{level: level, until: time.Now().Add(c.For), by: c.By}
		o.timer = time.AfterFunc(c.For, func() { l.end(c.Subsystem, o.until) })
		l.set[c.Subsystem] = o
	}
	l.publish()
}

// end ends an override whose time is over, unless another one replaced it.
func (l *Levels) end(name string, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.set[name].until.Equal(until) {
		return
	}
	l.changed(Change{Subsystem: name, Level: Reset})
	delete(l.set, name)
	l.publish()
}

// List returns the level of all, then of each subsystem.
func (l *Levels) List() []Setting {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Setting, 0, len(l.names)+1)
	of := func(name string) Setting {
		if o, ok := l.set[name]; ok {
			return Setting{name, o.level.String(), o.until.UTC(), o.by}
		}
		return Setting{Subsystem: name, Level: l.current.Load().all.String()}
	}
	out = append(out, of(All))
	for _, name := range l.names {
		out = append(out, of(name))
	}
	return out
}

// publish computes what the loggers ask.
func (l *Levels) publish() {
	t := &table{all: l.base}
	if o, ok := l.set[All]; ok {
		t.all = o.level
	}
	t.least = t.all
	for name, o := range l.set {
		if name == All {
			continue
		}
		if t.of == nil {
			t.of = map[string]Level{}
		}
		t.of[name] = o.level
		t.least = min(t.least, o.level)
	}
	l.current.Store(t)
}
