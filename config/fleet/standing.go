package fleet

import "time"

// The standings that a rollout uses; other states of a node give none.
const (
	StandsStaged    = "staged"    // it waits for its batch
	StandsTook      = "took"      // its stream ended after it acknowledged the push
	StandsConfirmed = "confirmed" // it runs the desired config, its parameters are ready and nothing is worse
	StandsFailed    = "failed"    // it rejected or undid the config
	StandsStuck     = "stuck"     // an operator or the node must act first
)

// Standing is a node's progress towards a config, according to the replica that has its stream.
type Standing struct {
	Digest Digest `json:"digest"`
	State  string `json:"state"`
	Why    string `json:"why,omitempty"`
}

// Standing returns the node's progress towards the config with this digest, for its rollout; says is false while there
// is none to report. worse names what is bad on the node and was good before its batch.
func (n *Node) Standing(now time.Time, digest Digest, why string, worse func() string) (s Standing, says bool) {
	s = Standing{Digest: digest, Why: why}
	switch is := n.validate(now).state; {
	case is == stateStaged && n.HasUndone(): // its gate was closed because it had gone offline
		s.State, s.Why = StandsFailed, "not confirmed in time: the node went back to its previous config"
	case is == stateStaged:
		s.State, s.Why = StandsStaged, ""
	case is == InSync && worse() == "":
		s.State, s.Why = StandsConfirmed, ""
	case is == RolledBack, is == stateWaiting && n.HasUndone():
		s.State = StandsFailed
	case is != InSync && is != ConfigError && is.NeedsOperator():
		s.State = StandsStuck
	default:
		return Standing{}, false
	}
	return s, true
}
