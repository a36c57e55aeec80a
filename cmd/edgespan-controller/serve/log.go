package serve

import (
	"io"
	"sync"
	"time"

	"edgespan/cmd/term"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Bounds of the log: while a disk is full, or the store is away, ten thousand nodes have the same
// to say each second.
const (
	maxAlike   = 100 // lines of one text in a minute
	maxTexts   = 1000
	alikeSince = time.Minute
)

// newLogger logs to w; of many lines of one text those that are left out are counted in the next one.
func newLogger(w io.Writer, level zapcore.LevelEnabler) *zap.Logger {
	return term.NewLogger(w, level).WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return &fewAlike{Core: c, texts: &texts{by: map[string]*alike{}}}
	}))
}

// fewAlike is a core that leaves out lines of one text.
type fewAlike struct {
	zapcore.Core
	texts *texts
}

// texts are those of the last minute.
type texts struct {
	mu sync.Mutex
	by map[string]*alike
}

// alike counts the lines of one text.
type alike struct {
	from    time.Time
	n, left int
}

// With keeps the count.
func (c *fewAlike) With(fields []zapcore.Field) zapcore.Core {
	return &fewAlike{c.Core.With(fields), c.texts}
}

// Check asks for the level alone: what is left out is decided with each line.
func (c *fewAlike) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Write writes a line, or counts it.
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

// admit says whether a line is written, and how many of its text were not since the last one.
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
