package fleet

// Phase is one part of what a replica does with a change of the store, once it has taken over the layers and the keys.
type Phase string

// The phases, in the order in which they are due.
const (
	PhaseBegin        Phase = "begin"           // the first time: the fleet of what the store had
	PhaseNetwork      Phase = "network"         // the network's layer is another
	PhaseMembers      Phase = "members"         // who has joined gets an actor, who was forgotten loses it
	PhasePeers        Phase = "peers"           // whose PeerConfiguration may be another gets it derived
	PhaseLayers       Phase = "layers"          // whose own layers are others gets its config computed
	PhaseBoards       Phase = "boards"          // what was learnt of boards is another
	PhaseRevocations  Phase = "revocations"     // the list of revocations is another
	PhaseTell         Phase = "tell"            // each node is told what it wants, where that is another
	PhaseCounts       Phase = "counts"          // what other replicas have counted meanwhile
	PhaseAdmit        Phase = "admit"           // those who wait for a node are let in
	PhaseServe        Phase = "serve"           // readers see the revision
	PhaseConsequences Phase = "consequences"    // what follows beside the nodes' configs: files, facts, tunnels
	PhaseRollouts     Phase = "staged rollouts" // they hear what nodes want
)

// Phases are those that are due, in their order. First is the first change that this replica takes over; the others say
// what is another than before.
func Phases(first, network, boards, revocations bool) []Phase {
	var due []Phase
	for _, p := range []struct {
		phase Phase
		due   bool
	}{
		{PhaseBegin, first}, {PhaseNetwork, network && !first}, {PhaseMembers, true}, {PhasePeers, true}, {PhaseLayers, true},
		{PhaseBoards, boards}, {PhaseRevocations, revocations},
		{PhaseTell, true}, {PhaseCounts, true}, {PhaseAdmit, true}, {PhaseServe, true}, {PhaseConsequences, true},
		{PhaseRollouts, true},
	} {
		if p.due {
			due = append(due, p.phase)
		}
	}
	return due
}
