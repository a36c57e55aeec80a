package serve

import (
	"io"
	"sync"
	"time"

	"edgespan/cmd/term"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Bounds of the log: while a disk is full or the store is down, ten thousand nodes cause the same line each second.
const (
	maxAlike   = 100 // lines of one text per minute
	maxTexts   = 1000
	alikeSince = time.Minute
)

// newLogger returns a logger to w that limits repeated lines. Each line after an omission has the count of omitted
// lines.
func newLogger(w io.Writer, level zapcore.LevelEnabler) *zap.Logger {
	return term.NewLogger(w, level).WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return &fewAlike{Core: c, texts: &texts{by: map[string]*alike{}}}
	}))
}

// fewAlike is a core that limits repeated lines.
type fewAlike struct {
	zapcore.Core
	texts *texts
}

// texts are the texts of recent lines.
type texts struct {
	mu sync.Mutex
	by map[string]*alike
}

// alike counts the lines of one text.
type alike struct {
	from    time.Time
	n, left int
}

// With shares the counts with the new core.
func (c *fewAlike) With(fields []zapcore.Field) zapcore.Core {
	return &fewAlike{c.Core.With(fields), c.texts}
}

// Check only checks the level; Write decides about each line.
func (c *fewAlike) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Write writes a line, or counts it as omitted.
func (c *fewAlike) Write(e zapcore.Entry, fields []zapcore.Field) error {
	left, take := c.texts.admit(e.Time, e.Message)
	if !take {
		return nil
	}
	if left > 0 {
		fields = append(fields[:len(fields):len(fields)], zap.Int("left_out", left))
	}
	return c.Core.Write(e, fields)
}

// admit reports whether to write a line, and how many lines of its text were omitted since the last one.
func (t *texts) admit(now time.Time, text string) (left int, take bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.by[text]
	if a == nil {
		if len(t.by) >= maxTexts {
			clear(t.by)
		}
		a = &alike{from: now}
		t.by[text] = a
	}
	if now.Sub(a.from) >= alikeSince || now.Before(a.from) {
		a.from, a.n = now, 0
	}
	if a.n++; a.n > maxAlike {
		a.left++
		return 0, false
	}
	left, a.left = a.left, 0
	return left, true
}
