// Package rollouts is /rollout, which brings a change to the nodes in batches. It owns the record of each staged
// rollout in the store and the gates of the nodes, which let one config through; on the replica that leads it runs
// the machine of config/fleet/rollout, whose decisions it stores before it carries them out, so that whoever leads
// next goes on where that one died.
//
// It never speaks to a node: it goes by the keys that replicas keep of theirs (fleet.Standing), which the fleet
// hands it as News, and by the commands of its Mailbox. Which node goes when is config/fleet/rollout's to say.
//
// Read actor.go first, then step.go.
package rollouts
