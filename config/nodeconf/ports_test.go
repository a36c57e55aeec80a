package nodeconf

import "testing"

func TestPortsThatAreNoMappingAreOneFault(t *testing.T) {
	const rest = `, "networkInstances": {"10000000-0000-4000-8000-000000000001": {"port": "wan", "ipv4": {"subnet": ` +
		`"10.1.0.0/24"}}}}`
	for value, want := range map[string]string{
		"null": "ports: invalid type null: must be a mapping",
		"[1]":  "ports: invalid type list: must be a mapping",
		`"x"`:  "ports: invalid type string: must be a mapping",
		"{}": `networkInstances.10000000-0000-4000-8000-000000000001.port: invalid value "wan", which no port has: ` +
			`must be all, freeuplink or uplink`,
	} {
		if _, _, err := Read([]byte(`{"ports": ` + value + rest)); err == nil || err.Error() != want {
			t.Errorf("ports %s: %v, want %s", value, err, want)
		}
	}
}
