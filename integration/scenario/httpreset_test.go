package scenario

import (
	"testing"
	"time"

	"edgespan/platform/lab"
)

// An app that fetches pages in a loop gets an answer within a second of the switch, whatever happens to the request that
// was under way.
func TestAnHTTPClientIsAnsweredSoonAfterASwitch(t *testing.T) {
	t.Parallel()
	w := newUplinkWorld(t, lab.Options{Uplinks: 2}, 10)
	if took := w.answeredAfterSwitch(w.watchExits(2, exitEvery), w.askForEver(), 0); took > scaled(time.Second) {
		t.Errorf("the first answer came %v after the switch", took)
	}
}
