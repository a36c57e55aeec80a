package fleet

import (
	"slices"
	"testing"
)

// TestInWhichOrderAChangeOfTheStoreIsTakenOver has one row for each possible change.
func TestInWhichOrderAChangeOfTheStoreIsTakenOver(t *testing.T) {
	t.Parallel()
	for n := range 16 {
		first, network, boards, revocations := n&1 > 0, n&2 > 0, n&4 > 0, n&8 > 0
		due := Phases(first, network, boards, revocations)
		for sentence, c := range map[string]struct{ earlier, later Phase }{
			"there is a fleet before nodes are put into it":                    {PhaseBegin, PhaseMembers},
			"the fleet has the network's layer before nodes are put into it":   {PhaseNetwork, PhaseMembers},
			"a node has its name before its peers are derived":                 {PhaseMembers, PhasePeers},
			"a node has its name before its config is computed":                {PhaseMembers, PhaseLayers},
			"boards are known before nodes hear what they want":                {PhaseBoards, PhasePublish},
			"a revoked certificate counts no more before nodes hear anything":  {PhaseRevocations, PhasePublish},
			"a revoked certificate counts no more before anybody is let in":    {PhaseRevocations, PhaseAdmit},
			"a node hears what it wants before anybody counts over it":         {PhasePublish, PhaseCounts},
			"a node hears what it wants before it is let in":                   {PhasePublish, PhaseAdmit},
			"nodes hear what they want before a reader sees the revision":      {PhasePublish, PhaseServe},
			"a reader sees the revision before another follows from it":        {PhaseServe, PhaseConsequences},
			"nodes hear what they want before the rollouts look who has it":    {PhasePublish, PhaseRollouts},
			"rollouts hear of a revision after all that is due of the layers":  {PhaseLayers, PhaseRollouts},
			"a PeerConfiguration is derived before the nodes hear of the rest": {PhasePeers, PhasePublish},
		} {
			a, b := slices.Index(due, c.earlier), slices.Index(due, c.later)
			if b < 0 || a >= b {
				t.Errorf("%s: not of %q", sentence, due)
			}
		}
		for p, want := range map[Phase]bool{PhaseBegin: first, PhaseNetwork: network && !first, PhaseBoards: boards,
			PhaseRevocations: revocations} {
			if slices.Contains(due, p) != want {
				t.Errorf("%s is due: %v, of first %v, network %v, boards %v, revocations %v", p, !want, first, network, boards,
					revocations)
			}
		}
	}
}
