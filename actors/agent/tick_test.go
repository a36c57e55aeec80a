package agent

import (
	"testing"
	"time"

	"edgespan/config/nodeconf/commitconfirm"
)

// A tick that is under way when the stream ends is the last one: before, one after the other
// came at once, and kept a processor busy until the stream was back.
func TestATickUnderWayAtTheEndOfAStreamIsTheLast(t *testing.T) {
	endless := time.AfterFunc(20*time.Second, func() { panic("the agent ticks without an end") })
	defer endless.Stop()
	onRig(t, func(r *rig) {
		r.connect()
		r.settle(time.Second)
		r.host.drained = func() {
			r.host.drained = nil
			time.Sleep(7 * time.Second) // the end of the stream is in its mailbox, and then a tick
		}
		r.host.wake()
		r.cutLine()
		r.settle(time.Minute)
		r.connect()
		r.settle(time.Second)
		r.runs("it goes on", `{"base":10}`, commitconfirm.Base)
	})
}
