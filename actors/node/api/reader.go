package api

import (
	"context"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
	"edgespan/netinst/registry"
)

// ActorState is what is known of one actor, for `get actor`.
type ActorState = nodeapi.ActorStatus

// Counted is what is known of the actors.
type Counted interface {
	List() []ActorState
	Down(id string) (ActorState, bool) // of one that waits for its restart
}

// Reader answers the questions of the control socket from topics. It tells no actor anything.
type Reader struct {
	Topics     *Topics
	Actors     Counted
	Done       <-chan struct{} // closed when the node stops
	Asked      func(adapter string) (time.Time, bool)
	Host       func() string // why the host's own chains are not as they must be
	Settled    func() bool   // whether they are
	Pending    func(context.Context) (nodeapi.Pending, error)
	Facts      Facts
	File       func() (data []byte, name string, err error)
	Forwarding func() registry.ForwardingChanged
	Interfaces func() []netstate.Interface
	Warning    string // of the start
}
