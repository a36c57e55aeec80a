package rollout_test

import (
	"testing"

	"edgespan/config/fleet/rollout"
)

// TestWhichNodesARolloutTakes: one sentence a row.
func TestWhichNodesARolloutTakes(t *testing.T) {
	t.Parallel()
	type node = rollout.UncoveredNode
	for sentence, c := range map[string]struct {
		node  node
		again bool // into the rollout of the last revision
		fresh bool // into one of a later revision
	}{
		"a node that waits to be let have what it wants is taken": {node{Wants: true, Waits: true, Online: true},
			true, true},
		"one that an aborted rollout holds back is not": {node{Wants: true, Waits: true, Online: true,
			Held: true}, false, false},
		"one that waits for its batch comes in its turn": {node{State: rollout.Waiting, Wants: true,
			Waits: true, Online: true}, false, false},
		"one that waits and wants something else goes with the later revision": {node{State: rollout.Waiting, Wants: true,
			Waits: true, Changed: true}, false, true},
		"one that was pushed to and has not answered is left alone": {node{State: rollout.Pushed, Wants: true,
			Waits: true, Online: true}, false, false},
		"one that was pushed to and wants something else is pushed again": {node{State: rollout.Pushed, Wants: true,
			Changed: true, Online: true}, true, true},
		"one that has confirmed what it wants is not taken": {node{State: rollout.Confirmed, Wants: true,
			Changed: true, Has: true, Online: true}, false, false},
		"one that confirmed and wants something else now is taken": {node{State: rollout.Confirmed, Wants: true,
			Changed: true, Online: true}, true, true},
		"one that failed is taken once it wants something else": {node{State: rollout.Failed, Wants: true,
			Changed: true, Online: true}, true, true},
		"one that failed and wants the same is not": {node{State: rollout.Failed, Wants: true,
			Online: true}, false, false},
		"one of no rollout that is online says itself that it waits": {node{Wants: true, Changed: true,
			Online: true}, false, false},
		"one of no rollout that is offline is in that of its revision": {node{Wants: true, Changed: true}, false,
			true},
		"one of which nobody knows what it wants is in none":      {node{Changed: true}, false, false},
		"one that is offline and wants what it wanted is in none": {node{Wants: true}, false, false},
	} {
		if got := c.node.BelongsToRollout(false); got != c.again {
			t.Errorf("%s: taken into the rollout that goes on: %v", sentence, got)
		}
		if got := c.node.BelongsToRollout(true); got != c.fresh {
			t.Errorf("%s: taken into the one of a later revision: %v", sentence, got)
		}
	}
}
