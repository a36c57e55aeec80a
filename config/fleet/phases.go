package fleet

// Phase is one part of the work of a replica on a change of the store, after it has read the layers and the keys.
type Phase string

// The phases, in order.
const (
	PhaseBegin        Phase = "begin"           // the first change: builds the fleet from the store
	PhaseNetwork      Phase = "network"         // the network layer changed
	PhaseMembers      Phase = "members"         // nodes that joined get an actor, removed ones lose it
	PhasePeers        Phase = "peers"           // derives the PeerConfigurations that may have changed
	PhaseLayers       Phase = "layers"          // computes the configs of nodes whose own layers changed
	PhaseBoards       Phase = "boards"          // the learnt boards changed
	PhaseRevocations  Phase = "revocations"     // the list of revocations changed
	PhasePublish      Phase = "tell"            // sends each node actor its desired config if it changed
	PhaseCounts       Phase = "counts"          // reads the generations that other replicas counted
	PhaseAdmit        Phase = "admit"           // admits requests that wait for their node to become known
	PhaseServe        Phase = "serve"           // readers see the revision
	PhaseConsequences Phase = "consequences"    // everything else that follows: files, facts, tunnels
	PhaseRollouts     Phase = "staged rollouts" // rollouts learn the desired configs
)

// Phases lists the phases that are due, in order. First is true for the first change that this replica reads; the other
// parameters say what changed.
func Phases(first, network, boards, revocations bool) []Phase {
	var due []Phase
	for _, p := range []struct {
		phase Phase
		due   bool
	}{
		{PhaseBegin, first}, {PhaseNetwork, network && !first}, {PhaseMembers, true}, {PhasePeers, true}, {PhaseLayers, true},
		{PhaseBoards, boards}, {PhaseRevocations, revocations},
		{PhasePublish, true}, {PhaseCounts, true}, {PhaseAdmit, true}, {PhaseServe, true}, {PhaseConsequences, true},
		{PhaseRollouts, true},
	} {
		if p.due {
			due = append(due, p.phase)
		}
	}
	return due
}
