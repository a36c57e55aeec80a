package rollout

// Candidate is a node when it is looked which nodes a rollout is to bring something to: those that want what no rollout
// has brought them.
type Candidate struct {
	State   State // in the rollout that goes on; "" where it is in none
	Wants   bool  // it is known that it wants something
	Held    bool  // an aborted rollout holds back what it wants
	Changed bool  // it wants something else since the last rollout began
	Waits   bool  // it says that it waits to be let have what it wants
	Has     bool  // it has confirmed what it wants
	Online  bool
}

// Taken says whether the node is taken into the rollout. Fresh is a rollout of a later revision than the last one's.
func (c Candidate) Taken(fresh bool) bool {
	switch {
	case c.Held:
		return false
	case c.State == Waiting && !(fresh && c.Changed): // it comes in its turn
		return false
	case c.State == Pushed && !c.Changed: // it has not answered
		return false
	case c.Waits:
		return true
	case !c.Changed || c.Has:
		return false
	}
	return c.State != "" || fresh && !c.Online && c.Wants
}
