package nodes

import (
	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/fleet"
	"edgespan/config/kv"
	"edgespan/config/layers"
)

// What a node tells the fleet.
type (
	// Started is an actor of a node that has started: it is told all that concerns it.
	Started struct{ ID string }
	// Compute asks for the wanted config of versions that a node reports.
	Compute struct {
		ID       string
		Versions layers.Versions
	}
	// Recount says that another replica counted a node's generations meanwhile.
	Recount struct {
		ID  string
		Now kv.Entry
	}
	// RequestBaseConfig asks whether a node may be asked for its base config.
	RequestBaseConfig struct {
		To        *actor.PID
		ID, Board string
	}
	// Learnt is what a node of unknown hardware told of it.
	Learnt struct {
		ID, Board string
		Data      []byte
	}
	// Reached says that a node runs a config that it wants.
	Reached struct {
		Name   string
		Digest fleet.Digest
	}
	// Located says that a node's address is another than before.
	Located struct{ ID string }
)
