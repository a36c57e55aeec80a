package fleet

import "time"

// The standings that a rollout goes by; all others say nothing yet.
const (
	StandsStaged    = "staged"    // it waits for its batch
	StandsTook      = "took"      // its stream ended after it had said that it has it
	StandsConfirmed = "confirmed" // it runs what it wants, its parameters are ready and nothing is worse
	StandsFailed    = "failed"    // it rejected or undid it
	StandsStuck     = "stuck"     // somebody else must act first
)

// Standing is how a node stands to a config, as the replica with its stream says.
type Standing struct {
	Digest Digest `json:"digest"`
	State  string `json:"state"`
	Why    string `json:"why,omitempty"`
}

// Standing is how the node stands to the config of a digest, for the rollout that brings it; none while that says
// nothing yet. worse is what is bad on it that was good before its batch.
func (n *Node) Standing(now time.Time, digest Digest, why string, worse func() string) (s Standing, says bool) {
	s = Standing{Digest: digest, Why: why}
	switch is := n.validate(now).state; {
	case is == stateStaged && n.Undid(): // its gate was closed, as it had gone offline
		s.State, s.Why = StandsFailed, "not confirmed in time: the node went back to its previous config"
	case is == stateStaged:
		s.State, s.Why = StandsStaged, ""
	case is == InSync && worse() == "":
		s.State, s.Why = StandsConfirmed, ""
	case is == RolledBack, is == stateWaiting && n.Undid():
		s.State = StandsFailed
	case is != InSync && is != ConfigError && is.Stuck():
		s.State = StandsStuck
	default:
		return Standing{}, false
	}
	return s, true
}
