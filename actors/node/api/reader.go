package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/hits"
	"edgespan/netinst/netstate"
	"edgespan/netinst/registry"
	"edgespan/netinst/watched"
)

// ActorState is the state of one actor, for `get actor`.
type ActorState = nodeapi.ActorStatus

// Counted reports the state of the actors.
type Counted interface {
	List() []ActorState
	Down(id string) (ActorState, bool) // of an actor that waits for its restart
}

// Reader answers the requests of the control socket from topics. It sends no actor a message.
type Reader struct {
	Topics     *Topics
	Actors     Counted
	Done       <-chan struct{} // closed when the node stops
	Asked      func(adapter string) (time.Time, bool)
	Host       func() string // why the host's own chains are not as desired
	Settled    func() bool   // whether they are
	Stuck      func() bool   // whether a vital actor does not answer
	Pending    func(context.Context) (nodeapi.Pending, error)
	Facts      FactsReader
	File       func() (data []byte, name string, err error)
	Forwarding func() registry.ForwardingChanged
	Hits       func(netinst.AdapterKey, uuid.UUID) (map[hits.Key]hits.Total, time.Time) // of an adapter on a network
	Interfaces func() []netstate.Interface
	Watched    func(func(uuid.UUID, *watched.Network)) // calls the function with each network, which it may read meanwhile
	Warning    string                                  // of startup
}
