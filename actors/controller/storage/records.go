package storage

import (
	"encoding/json"

	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// RemoteCommand is a command for the replica that has a node's stream, or that leads the rollouts, and its answer.
type RemoteCommand struct {
	From     string           `json:"from"` // replica
	By       fleetapi.Caller  `json:"by"`
	What     fleetapi.Command `json:"what"`
	Rollout  uint64           `json:"rollout,omitempty"` // that it is about, in the mailbox of rollouts
	Answered bool             `json:"answered,omitempty"`
	Refused  string           `json:"refused,omitempty"`
}

// Itself is the controller as the author of what follows from others' writes.
var Itself = fleetapi.Caller{Name: "controller", Role: fleetapi.Admin}

// ByItself says whether a revision is one that the controller wrote by itself.
func ByItself(author string) bool { return author == Itself.Name || author == Migration.Name }

// Encode is the JSON of a value that always has one.
func Encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data
	}
	return text
}

// ValueOf reads the value of a key; one that is absent or can't be read is the zero value.
func ValueOf[V any](e kv.Event) V {
	var v, none V
	if e.Kind != kv.EventPut || json.Unmarshal(e.Entry.Value, &v) != nil {
		return none
	}
	return v
}
