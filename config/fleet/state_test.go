package fleet

import (
	"slices"
	"testing"
)

// shownStates are the words for a node's states.
var shownStates = []State{UnknownNode, NotJoined, Offline, OtherReplica, NoReport, ConfigError, Unmanaged, HeldLocally,
	Pending, NeedsAdoption, UnknownHardware, RolledBack, Pushing, Degraded, InSync}

func TestStatesAreShownInTheWordsOfTheTables(t *testing.T) {
	for state, want := range map[State]State{
		stateComputing: Pending, stateComparing: Pending, stateStaged: Pending, stateDue: Pushing,
		stateWaiting: Pushing, stateApplying: Pushing, stateSettling: Pushing, stateConfirming: Pushing,
		stateRenumbering: Pushing,
	} {
		if got := state.shown(); got != want {
			t.Errorf("%s is shown as %s, want %s", state, got, want)
		}
	}
	for _, state := range shownStates {
		if got := state.shown(); got != state {
			t.Errorf("%s is shown as %s", state, got)
		}
	}
}

// Replicas of the previous release and of this one read each other's states.
func TestStatesAreReadInTheirOldSpelling(t *testing.T) {
	for word, want := range map[string]State{
		"unknown": UnknownNode, "not joined": NotJoined, "offline": Offline, "elsewhere": OtherReplica,
		"silent": NoReport, "computing": Pending, "faulty layers": ConfigError, "unmanaged": Unmanaged,
		"held locally": HeldLocally, "in sync": InSync, "renumbering": Pushing, "settling": Pushing,
		"unwell": Degraded, "confirming": Pushing, "hardware": UnknownHardware, "failed": RolledBack,
		"comparing": Pending, "needs adoption": NeedsAdoption, "staged": Pending, "applying": Pushing,
		"waiting": Pushing, "due": Pushing,
	} {
		if got := ReadState(word); got != want || ReadState(string(want)) != want {
			t.Errorf("%q is read as %s, want %s", word, got, want)
		}
	}
	for _, state := range shownStates {
		old := state.Previous()
		if slices.Contains(shownStates, State(old)) || ReadState(old) != state {
			t.Errorf("%s is written as %q and read as %s", state, old, ReadState(old))
		}
	}
	if got := ReadState("of tomorrow"); got != "of tomorrow" {
		t.Errorf("a word of a later release is read as %q", got)
	}
}
