// Package rollouts is /rollout, which brings a change to the nodes in batches. It owns the record of each staged
// rollout in the store, and the nodes' gates, which admit one config each. On the leading replica it runs the machine
// of config/fleet/rollout, and stores its decisions before it carries them out, so that the next leader continues where
// this one died.
//
// It never talks to a node: it uses the keys that replicas write for their nodes (fleet.Standing), which the fleet
// passes on as Changes, and the commands in its Outbox. config/fleet/rollout decides which node gets the change when.
//
// Read actor.go first, then step.go.
package rollouts
