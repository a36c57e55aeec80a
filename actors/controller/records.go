package controller

import (
	"encoding/json"

	"edgespan/config/fleet"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/revision"
)

// letter is a command for the replica that has a node's stream, or that leads the rollouts, and its answer.
type letter struct {
	From     string           `json:"from"` // replica
	By       fleetapi.Caller  `json:"by"`
	What     fleetapi.Command `json:"what"`
	Rollout  uint64           `json:"rollout,omitempty"` // that it is about, in the mailbox of rollouts
	Answered bool             `json:"answered,omitempty"`
	Refused  string           `json:"refused,omitempty"`
}

// The standings that a rollout goes by; all others say nothing yet.
const (
	standsStaged    = "staged"    // it waits for its batch
	standsTook      = "took"      // its stream ended after it had said that it has it
	standsConfirmed = "confirmed" // it runs what it wants, its parameters are ready and nothing is worse
	standsFailed    = "failed"    // it rejected or undid it
	standsStuck     = "stuck"     // somebody else must act first
)

// standing is how a node stands to a config, as the replica with its stream says.
type standing struct {
	Digest fleet.Digest `json:"digest"`
	State  string       `json:"state"`
	Why    string       `json:"why,omitempty"`
}

// itself is the controller as the author of what follows from others' writes.
var itself = fleetapi.Caller{Name: "controller", Role: fleetapi.Admin}

// ofItself says whether a revision is one that the controller wrote by itself.
func ofItself(author string) bool { return author == itself.Name || author == migration.Name }

// encode is the JSON of a value that always has one.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data
	}
	return text
}

// valueOf reads the value of a key; one that is absent or can't be read is the zero value.
func valueOf[V any](e revision.Event) V {
	var v, none V
	if e.Kind != revision.EventPut || json.Unmarshal(e.Entry.Value, &v) != nil {
		return none
	}
	return v
}
