package fleet

import "time"

// The states of progress that a rollout uses; other states of a node give none.
const (
	ProgressStaged    = "staged"    // it waits for its batch
	ProgressAcked     = "took"      // its stream ended after it acknowledged the push
	ProgressConfirmed = "confirmed" // it runs the desired config, its parameters are ready and nothing is worse
	ProgressFailed    = "failed"    // it rejected or undid the config
	ProgressStuck     = "stuck"     // an operator or the node must act first
)

// RolloutProgress is a node's progress towards a config, according to the replica that has its stream.
type RolloutProgress struct {
	Digest Digest `json:"digest"`
	State  string `json:"state"`
	Why    string `json:"why,omitempty"`
}

// RolloutProgress returns the node's progress towards the config with this digest, for its rollout; says is false while
// there is none to report. worse names what is bad on the node and was good before its batch.
func (n *Node) RolloutProgress(now time.Time, digest Digest, why string, worse func() string) (s RolloutProgress,
	says bool) {
	s = RolloutProgress{Digest: digest, Why: why}
	switch state := n.evaluate(now).state; {
	case state == stateStaged && n.HasUndone(): // its gate was closed because it had gone offline
		s.State, s.Why = ProgressFailed, "not confirmed in time: the node went back to its previous config"
	case state == stateStaged:
		s.State, s.Why = ProgressStaged, ""
	case state == InSync && worse() == "":
		s.State, s.Why = ProgressConfirmed, ""
	case state == RolledBack, state == stateWaiting && n.HasUndone():
		s.State = ProgressFailed
	case state != InSync && state != ConfigError && state.NeedsOperator():
		s.State = ProgressStuck
	default:
		return RolloutProgress{}, false
	}
	return s, true
}
