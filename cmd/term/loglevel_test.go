package term

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/zap"

	"edgespan/pubsub/loglevel"
)

func TestASubsystemHasALevelOfItsOwn(t *testing.T) {
	var out bytes.Buffer
	every := NewLogger(&out, zap.DebugLevel)
	levels := NewLevels([]string{"probe", "bridge"}, loglevel.Warn, every)
	log := WithLevels(every, levels)
	write := func() string {
		out.Reset()
		for _, l := range []*zap.Logger{log.Named("probe").With(zap.Int("n", 1)), log.With(zap.Int("n", 2)).Named("bridge"), log} {
			l.Debug("debug")
			l.Info("info")
			l.Warn("warn")
		}
		return out.String()
	}
	if got := write(); strings.Count(got, "\n") != 3 || strings.Count(got, `"msg":"warn"`) != 3 {
		t.Errorf("at warn:\n%s", got)
	}
	levels.SetBase(loglevel.Error)
	levels.Set(loglevel.Change{Subsystem: "probe", Level: "debug", By: "ann"})
	if got := out.String(); !strings.Contains(got, "log level changed") || !strings.Contains(got, `"by":"ann"`) {
		t.Errorf("the change of a log that writes errors alone is no line: %s", got)
	}
	if got := write(); strings.Count(got, "\n") != 3 || strings.Count(got, `"logger":"probe"`) != 3 {
		t.Errorf("the subsystem at debug:\n%s", got)
	}
	levels.Set(loglevel.Change{Subsystem: "probe", Level: loglevel.Reset})
	if got := write(); got != "" {
		t.Errorf("after the reset:\n%s", got)
	}
	if ce := log.Check(zap.DebugLevel, "x"); ce != nil || log.Core().Enabled(zap.WarnLevel) {
		t.Error("a level that no subsystem has is enabled")
	}
}
