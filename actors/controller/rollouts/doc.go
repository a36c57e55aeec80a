// Package rollouts holds the actor "rollout", which brings a change to the nodes in batches. It owns the record of each
// staged rollout in the store, and one admission per node: the config that the node may get now. Replicas are the
// controllers that share a store. On the leading one the actor runs the state machine of config/fleet/rollout ("the
// machine" in this package), and stores its decisions before it carries them out, so that the next leader continues
// where this one died.
//
// It never talks to a node. The replica that a node is connected to pushes the config that the node's admission allows,
// and writes the node's progress to the store (fleet.RolloutProgress). The actor "fleet" of each
// replica follows the store and sends this actor the Changes: of nodes, their desired configs, admissions and progress,
// of records, and of operators' commands (Outbox). config/fleet/rollout decides which node gets the change when;
// config/fleet/rollout/staged decides the rest.
//
// Read actor.go first, then step.go.
package rollouts
