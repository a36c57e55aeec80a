package term

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"edgespan/pubsub/loglevel"
)

// WithLevels returns a log whose lines have a level for each subsystem. log must write every level.
func WithLevels(log *zap.Logger, l *loglevel.Levels) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return leveled{c, l} }))
}

// leveled is a core that asks for the level of the logger of a line.
type leveled struct {
	zapcore.Core
	levels *loglevel.Levels
}

func (c leveled) Enabled(l zapcore.Level) bool { return loglevel.Level(l) >= c.levels.Least() }

func (c leveled) With(fields []zapcore.Field) zapcore.Core {
	return leveled{c.Core.With(fields), c.levels}
}

func (c leveled) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.levels.Enabled(e.LoggerName, loglevel.Level(e.Level)) {
		return to
	}
	return c.Core.Check(e, to)
}

// NewLevels returns the levels of a program, whose changes are lines of log: also if it writes no warnings.
func NewLevels(names []string, base loglevel.Level, log *zap.Logger) *loglevel.Levels {
	return loglevel.New(names, base, func(c loglevel.Change) {
		log.Warn("log level changed", zap.String("subsystem", c.Subsystem), zap.String("level", c.Level),
			zap.Stringer("for", c.For), zap.String("by", c.By))
	})
}

// LevelTable shows levels of a log.
func LevelTable(all []loglevel.Setting) Shown {
	s := Shown{Data: map[string]any{"levels": all}}
	for _, l := range all {
		s.Names = append(s.Names, l.Subsystem)
	}
	s.Table = func(bool) *Table {
		t := &Table{Head: []string{"SUBSYSTEM", "LEVEL", "UNTIL", "BY"}}
		for _, l := range all {
			until := ""
			if !l.Until.IsZero() {
				until = l.Until.UTC().Format(time.RFC3339)
			}
			t.Add(l.Subsystem, l.Level, until, l.By)
		}
		return t
	}
	return s
}
