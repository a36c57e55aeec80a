package daemon

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"edgespan/pubsub/tape"
)

// A recording that ends before the daemon is told to people once, without a secret.
func TestTheLogTellsThatARecordingEnds(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	var r recording
	o := nodeOptions{Record: filepath.Join(t.TempDir(), "record"), RecordSize: defaultRecordSize}
	to := r.start(o, 1, zap.New(core))
	for i := range 5000 {
		to.Learn(map[string]string{"password": fmt.Sprintf("%05d secret", i*10)})
	}
	r.stop()
	said := logs.All()
	if len(said) != 1 || said[0].Level != zap.WarnLevel || said[0].Message != "the recording ends until the next start" ||
		said[0].ContextMap()["error"] != tape.ErrSecrets.Error() {
		t.Errorf("%+v", said)
	}
}

// A disk that hangs delays the end of the daemon by a bounded time, one that works not at all.
func TestTheEndOfARecordingIsBounded(t *testing.T) {
	for hangs, want := range map[bool]time.Duration{true: recordingEnds, false: 0} {
		synctest.Test(t, func(t *testing.T) {
			r := recording{done: make(chan struct{}), ended: make(chan struct{})}
			if !hangs {
				go func() { defer close(r.ended); <-r.done }()
			}
			began := time.Now()
			r.stop()
			if took := time.Since(began); took != want {
				t.Errorf("hangs %v: it took %v, want %v", hangs, took, want)
			}
		})
	}
	(&recording{}).stop() // nothing is recorded
}
