package fleet

import (
	"testing"

	"edgespan/config/fleet/nodeproto"
)

// What was bad before a batch does not count against it; for a node that was not seen before, all parameters must be
// ready.
func TestWhatIsWorseOnANodeThanBeforeItsBatch(t *testing.T) {
	t.Parallel()
	report := func(state string, good bool) *nodeproto.Report {
		return &nodeproto.Report{Parameters: []nodeproto.ParameterReport{{ID: "ni/x", State: state}},
			Health: []nodeproto.HealthReport{{Name: "port/wan", Good: good}}}
	}
	for name, c := range map[string]struct {
		earlier, now *nodeproto.Report
		want         string
	}{
		"nothing":                                  {report("Present", true), report("Present", true), ""},
		"a port went bad":                          {report("Present", true), report("Present", false), "port/wan"},
		"a port was bad before":                    {report("Present", false), report("Present", false), ""},
		"a network failed":                         {report("Present", true), report("CreatingFailed", true), "ni/x"},
		"a network had failed before":              {report("CreatingFailed", true), report("CreatingFailed", true), ""},
		"a network is new and not ready":           {&nodeproto.Report{}, report("Creating", true), "ni/x"},
		"nobody saw it before: a network is bad":   {nil, report("Creating", true), "ni/x"},
		"nobody saw it before: a port may be bad":  {nil, report("Present", false), ""},
		"nobody saw it before: all is as it is to": {nil, report("Present", true), ""},
	} {
		if got := NewlyBad(c.earlier, c.now); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
