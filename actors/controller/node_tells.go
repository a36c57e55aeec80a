package controller

import (
	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/fleet"
	"edgespan/config/layers"
	"edgespan/config/revision"
)

// What a node tells the fleet.
type (
	// seated is an actor of a node that has started: it is told all that concerns it.
	seated struct{ id string }
	// compute asks for the wanted config of versions that a node reports.
	compute struct {
		id       string
		versions layers.Versions
	}
	// recount says that another replica counted a node's generations meanwhile.
	recount struct {
		id  string
		now revision.Entry
	}
	// askBase asks whether a node may be asked for its base config.
	askBase struct {
		to        *actor.PID
		id, board string
	}
	// learnt is what a node of unknown hardware told of it.
	learnt struct {
		id, board string
		data      []byte
	}
	// reached says that a node runs a config that it wants.
	reached struct {
		name   string
		digest fleet.Digest
	}
	// located says that a node's address is another than before.
	located struct{ id string }
)
