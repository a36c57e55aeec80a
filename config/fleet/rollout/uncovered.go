package rollout

// UncoveredNode is a node that may be taken into a rollout: its desired config may be one that no rollout has brought
// it.
type UncoveredNode struct {
	State   State // in the current rollout; "" if it is in none
	Wants   bool  // it is known to have a desired config
	Held    bool  // an aborted rollout holds back its desired config
	Changed bool  // its desired config has changed since the last rollout began
	Waits   bool  // it reports that it waits for the admission of its desired config
	Has     bool  // it has confirmed its desired config
	Online  bool
}

// BelongsToRollout reports whether the node is taken into the rollout. fresh marks a rollout of a later revision than
// the last one's.
func (c UncoveredNode) BelongsToRollout(fresh bool) bool {
	switch {
	case c.Held:
		return false
	case c.State == Waiting && !(fresh && c.Changed): // its turn comes
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
