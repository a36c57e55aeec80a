package daemon

import (
	"fmt"
	"path/filepath"
	"testing"

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
