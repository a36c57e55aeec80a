package supervise

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/ctxext"
)

// ending marks the context of an actor that has been told to stop.
type ending struct{}

var endingID = ctxext.NextContextExtensionID()

func (ending) ExtensionID() ctxext.ContextExtensionID { return endingID }

// ended reports whether an actor that is about to stop gets a message that it must not handle any more.
//
// The library stops the children that an actor has at this moment, and goes on to deliver what is in its mailbox while
// it waits for them. A child that is made then is never stopped, and its parent waits for it for ever: so from
// Stopping on an actor gets nothing but Stopped, and a request is answered as if the actor were gone.
func ended(c actor.ReceiverContext, e *actor.MessageEnvelope) bool {
	if _, told := e.Message.(*actor.Stopping); told {
		c.Set(ending{})
		return false
	}
	if c.Get(endingID) == nil {
		return false
	}
	switch e.Message.(type) {
	case *actor.Stopped:
		return false
	case *actor.Started: // a restart after a crash was due meanwhile: the library makes the actor again, and lets it live
		c.ActorSystem().Root.Stop(c.Self())
		return true
	}
	if e.Sender != nil {
		c.ActorSystem().Root.Send(e.Sender, &actor.DeadLetterResponse{Target: c.Self()})
	}
	return true
}
