package storage

import (
	"encoding/json"

	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// RemoteCommand is a command for the replica that has a node's stream or that leads the rollouts, and its answer.
type RemoteCommand struct {
	From     string           `json:"from"` // replica
	By       fleetapi.Caller  `json:"by"`
	What     fleetapi.Command `json:"what"`
	Rollout  uint64           `json:"rollout,omitempty"` // in the outbox of the rollouts: the rollout that it is for
	Answered bool             `json:"answered,omitempty"`
	Refused  string           `json:"refused,omitempty"`
	// Query asks a replica for events of its nodes, with What events; Events is the answer.
	Query  *fleetapi.EventQuery `json:"query,omitempty"`
	Events *fleetapi.Events     `json:"events,omitempty"`
}

// LeaderAuthor is the author of writes that the controller derives from other writes.
var LeaderAuthor = fleetapi.Caller{Name: "controller", Role: fleetapi.Admin}

// IsAutomatic reports whether the author of a revision is the controller itself.
func IsAutomatic(author string) bool { return author == LeaderAuthor.Name || author == Migration.Name }

// Encode returns the JSON of a value that always has one.
func Encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data
	}
	return text
}

// ValueOf decodes the value of a key. It returns the zero value for an absent or unreadable one.
func ValueOf[V any](e kv.Event) V {
	var v, none V
	if e.Kind != kv.EventPut || json.Unmarshal(e.Entry.Value, &v) != nil {
		return none
	}
	return v
}
