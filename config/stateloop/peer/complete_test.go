package peer

import (
	"slices"
	"testing"

	"edgespan/config/stateloop"
)

// TestWhatANodeIsGivenAsAPeer: one sentence a row.
func TestWhatANodeIsGivenAsAPeer(t *testing.T) {
	t.Parallel()
	wants := &Configuration{Parameters: []DeclaredParameter{{ID: "a", Kind: KindInterface, Target: stateloop.ToBePresent}}}
	left := []Leftover{{ID: "b", Kind: KindBridge}}
	declares := func() []stateloop.DesiredParameter {
		return []stateloop.DesiredParameter{{ID: "c", Kind: KindInterface, Target: stateloop.ToBePresent}}
	}
	for sentence, c := range map[string]struct {
		with *Configuration
		gone []Leftover
		want []string // each with its target
	}{
		"a node that is no peer and was none gets nothing":          {nil, nil, nil},
		"a peer gets what it wants":                                 {wants, nil, []string{"a present"}},
		"a peer gets rid of what is left, too":                      {wants, left, []string{"a present", "b absent"}},
		"a node that is no peer any more keeps what its config has": {nil, left, []string{"b absent", "c present"}},
		"a peer that wants again what it had has it once, and present": {wants, []Leftover{{ID: "a", Kind: KindInterface}},
			[]string{"a present"}},
	} {
		var got []string
		if all := Complete("n1", c.with, c.gone, declares); all != nil {
			for _, p := range all.Parameters {
				target := "present"
				if p.Target == stateloop.ToBeAbsent {
					target = "absent"
				}
				got = append(got, p.ID+" "+target)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", sentence, got, c.want)
		}
	}
	if len(wants.Parameters) != 1 {
		t.Error("what the node wants was changed")
	}
}
