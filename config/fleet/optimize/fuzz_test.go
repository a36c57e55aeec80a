package optimize

import (
	"testing"

	"edgespan/config"
)

// FuzzLayers: whatever stands in the layers, there is a result that a second run leaves as
// it is, or faults.
func FuzzLayers(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"A": 5}`, `{"A": {"radioParamsOverride": 1}}`,
		`{"A": {"radioParamsOverride": {"02:00:00:00:41:31": {"fwParams": {"polarity": 2}}}}}`,
		`{"A": {"radioParamsOverride": {"02-00-00-00-41-31": {"fwParams": {"polarity": 2.0, "channel": null}}, "x": 1}}}`,
		`{"A": {"radioParamsOverride": {"02:00:00:00:41:3A": {}, "02:00:00:00:41:3a": {}}}}`,
		`{"radioParamsBase": {"fwParams": {"channel": 2}}}`,
		`{"linkParamsBase": {"fwParams": {"txGolayIdx": 2, "controlSuperframe": 1e300}}}`,
		`{"B": {"linkParamsBase": {"fwParams": {"controlSuperframe": 0}}}}`,
		`{"B": {"linkParamsBase": {"fwParams": []}, "radioParamsBase": null}}`,
	} {
		f.Add(seed, `{}`, `{}`, false)
		f.Add(`{}`, seed, `{}`, false)
		f.Add(`{}`, `{}`, seed, true)
	}
	f.Fuzz(func(t *testing.T, auto, network, node string, clear bool) {
		in := Input{Topology: world("A.1 B.1", "B.2 C.1", "C.1 d.1"), ClearUser: clear}
		for text, doc := range map[*string]*config.Object{&auto: &in.Auto, &network: &in.Network, &node: &in.Node} {
			o, faults := config.ParseObject([]byte(*text))
			if faults != nil {
				return
			}
			*doc = o
		}
		out, faults := Run(in, All...)
		if faults != nil {
			if len(faults[0].Path) == 0 || told(faults) == "" {
				t.Errorf("faults %q", faults)
			}
			return
		}
		if again, faults := Run(after(in, out), All...); len(again.Changes) > 0 || faults != nil {
			t.Errorf("again: %v %v", again.Changes, faults)
		}
	})
}
