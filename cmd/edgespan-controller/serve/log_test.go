package serve

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Of many lines alike the log has a hundred a minute, and says how many are left out; others are
// not touched by that.
func TestManyLinesAlikeAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := newLogger(&out, zapcore.InfoLevel)
		for range 10_000 {
			log.With(zap.String("a", "b")).Named("part").Warn("store the state of a node", zap.String("node", "x"))
		}
		log.Info("another")
		log.Debug("none")
		if n := strings.Count(out.String(), "store the state"); n != maxAlike ||
			strings.Count(out.String(), "another") != 1 || strings.Contains(out.String(), "none") {
			t.Errorf("%d lines: %s", n, out.String())
		}
		out.Reset()
		time.Sleep(time.Minute)
		log.Warn("store the state of a node", zap.String("node", "x"))
		if !strings.Contains(out.String(), `"left_out":9900`) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("a minute later: %s", out.String())
		}
	})
}
