package fleet

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
