package fleet

import (
	"testing"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
)

// What was bad before a batch does not count against it; for a node that was not seen before, all parameters must be
// ready.
func TestWhatIsWorseOnANodeThanBeforeItsBatch(t *testing.T) {
	t.Parallel()
	report := func(state string, good bool) *nodeproto.Report {
		return &nodeproto.Report{Parameters: []nodeproto.ParameterReport{{ID: "ni/x", State: state}},
			Health: []nodeproto.HealthReport{{Name: "port/wan", Good: good}}}
	}
	part := func(kind string, state stateloop.State) *nodeproto.Report {
		return &nodeproto.Report{Parameters: []nodeproto.ParameterReport{{ID: kind, Kind: kind, State: string(state)}}}
	}
	const failed, waiting = stateloop.CreatingFailed, stateloop.WaitingForDependencies
	for name, c := range map[string]struct {
		earlier, now *nodeproto.Report
		want         string
	}{
		"nothing":                        {report("Present", true), report("Present", true), ""},
		"a port went bad":                {report("Present", true), report("Present", false), "port/wan"},
		"a port was bad before":          {report("Present", false), report("Present", false), ""},
		"a network failed":               {report("Present", true), report("CreatingFailed", true), "ni/x"},
		"a network had failed before":    {report("CreatingFailed", true), report("CreatingFailed", true), ""},
		"a network is new and not ready": {&nodeproto.Report{}, report("Creating", true), "ni/x"},
		"seen for the first time: another node does not answer": {nil,
			part(peer.KindCheck, stateloop.CheckPresentFailed), ""},
		"another node does not answer": {part(peer.KindCheck, stateloop.Present),
			part(peer.KindCheck, stateloop.CheckPresentFailed), ""},
		"another node does not answer again": {part(peer.KindCheck, stateloop.Absent),
			part(peer.KindCheck, stateloop.CheckPresentFailed), ""},
		"a tunnel waits for its other end":           {report("Present", true), part(peer.KindTunnel, waiting), ""},
		"a link waits for its tunnel":                {report("Present", true), part(peer.KindJoined, waiting), ""},
		"a bridge waits":                             {report("Present", true), part(peer.KindBridge, waiting), peer.KindBridge},
		"a tunnel failed":                            {report("Present", true), part(peer.KindTunnel, failed), peer.KindTunnel},
		"seen for the first time: a network is bad":  {nil, report("Creating", true), "ni/x"},
		"seen for the first time: a port may be bad": {nil, report("Present", false), ""},
		"seen for the first time: all is ready":      {nil, report("Present", true), ""},
	} {
		if got := NewlyBad(c.earlier, c.now); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
