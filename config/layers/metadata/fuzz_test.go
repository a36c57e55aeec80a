package metadata

import (
	"testing"

	"edgespan/config"
)

// Nothing that is read as a document makes these rooms panic, and the same document gives
// the same answer twice.
func FuzzParse(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte(seedExample))
	f.Add([]byte(nested))
	f.Add([]byte(`{"a":{"__copy_block__":"a"},"b":{"desc":1,"type":[],"action":{}}}`))
	f.Add([]byte(`{"a":{"desc":"","type":"STRING","action":"REBOOT","strVal":{"regexMatches":"[^]]+|\\u12"}}}`))
	f.Add([]byte(`{"a":{"desc":"","type":"MAP","action":"NO_ACTION","mapVal":{"type":"FLOAT"},"default":{"x":[1e300]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, faults := config.ParseObject(text)
		if faults != nil {
			return
		}
		m, faults := Parse(doc, Options{E2E: IsE2E(doc)})
		again, faultsAgain := Parse(doc, Options{E2E: IsE2E(doc)})
		if faults.Error() != faultsAgain.Error() {
			t.Fatalf("%v, then %v", faults, faultsAgain)
		}
		if m == nil {
			return
		}
		if compact(m.Document()) != compact(again.Document()) {
			t.Fatal("expands otherwise the second time")
		}
		for e := range m.All() {
			if _, found := m.Entry(e.Path); !found {
				t.Fatalf("%s is not found", e.Name())
			}
		}
		merged, conflicts, faults := m.Merge(doc)
		if len(conflicts)+len(faults) > 0 && doc["strict"] == nil || compact(merged.Document()) != compact(m.Document()) {
			t.Fatalf("its own document: %v %v", conflicts, faults)
		}
	})
}

func FuzzValidate(f *testing.F) {
	f.Add([]byte(`{"envParams":{"x":1,"CPE_INTERFACE":null},"u":[]}`))
	f.Add([]byte(`{"linkParamsOverride":{"00:11":{"fwParams":{"mcs":1.0}}},"tunnelConfig":{"":{}}}`))
	f.Add([]byte(`{"bgpParams":{"neighbors":{"a.b":{"asn":-1}}},"sysParams":5,"topologyInfo":{"nodeName":""}}`))
	m := terragraph(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		o, faults := config.ParseObject(text)
		if faults != nil {
			return
		}
		if a, b := judged(m.Validate(o)), judged(m.Validate(o)); a != b {
			t.Fatalf("%s, then %s", a, b)
		}
		if a, b := told(m.Actions(o)), told(m.Actions(o)); a != b {
			t.Fatalf("%s, then %s", a, b)
		}
		shared, own := m.Split(o)
		whole, clashes := config.Merge(own, shared)
		if clashes != nil || compact(whole) != compact(o) {
			t.Fatalf("%s and %s are not the whole", compact(shared), compact(own))
		}
	})
}
