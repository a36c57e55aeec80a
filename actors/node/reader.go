package node

import (
	"context"
	"time"

	"edgespan/config/httpapi"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// ActorState is what is known of one actor, for `get actor`.
type ActorState struct {
	ID       string    `json:"id"`
	State    string    `json:"state"` // running, restarting
	Crashes  int       `json:"restarts"`
	Last     string    `json:"error"` // the last crash
	LastAt   time.Time `json:"-"`
	Next     string    `json:"next"` // back-off under way
	Messages uint64    `json:"messages"`
}

// counted is what is known of the actors.
type counted interface {
	List() []ActorState
	Down(id string) (ActorState, bool) // of one that waits for its restart
}

// reader answers the questions of the control socket from topics. It tells no actor anything.
type reader struct {
	topics     *Topics
	actors     counted
	done       <-chan struct{} // closed when the node stops
	asked      func(adapter string) (time.Time, bool)
	host       func() string // why the host's own chains are not as they must be
	settled    func() bool   // whether they are
	pending    func(context.Context) (httpapi.Pending, error)
	facts      Facts
	file       func() (data []byte, name string, err error)
	forwarding func() netinst.ForwardingChanged
	interfaces func() []netstate.Interface
	warning    string // of the start
}
