package nodes

import (
	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/fleet"
	"edgespan/config/kv"
	"edgespan/config/layers"
)

// Messages from a node's actor to the fleet.
type (
	// Started reports that a node's actor has started: the fleet sends it everything that concerns it.
	Started struct{ ID string }
	// Compute asks for the desired config for a node's reported versions.
	Compute struct {
		ID       string
		Versions layers.Versions
	}
	// Recount reports that another replica counted a node's generations concurrently.
	Recount struct {
		ID  string
		Now kv.Entry
	}
	// RequestBaseConfig asks for permission to request a node's base config.
	RequestBaseConfig struct {
		To        *actor.PID
		ID, Board string
	}
	// Learnt is what a node of unknown hardware reported of it.
	Learnt struct {
		ID, Board string
		Data      []byte
	}
	// Reached reports that a node runs its desired config.
	Reached struct {
		Name   string
		Digest fleet.Digest
	}
	// Located reports that a node's address changed.
	Located struct{ ID string }
)
