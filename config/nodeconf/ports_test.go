package nodeconf

import "testing"

func TestPortsThatAreNoMappingAreOneFault(t *testing.T) {
	const rest = `, "networkInstances": {"10000000-0000-4000-8000-000000000001": {"port": "wan", "ipv4": {"subnet": "10.1.0.0/24"}}}}`
	for value, want := range map[string]string{
		"null": "ports: is null: a mapping is allowed",
		"[1]":  "ports: is a list: a mapping is allowed",
		`"x"`:  "ports: is a string: a mapping is allowed",
		"{}":   `networkInstances.10000000-0000-4000-8000-000000000001.port: is "wan", which no port has: all, freeuplink or uplink is allowed`,
	} {
		if _, _, err := Read([]byte(`{"ports": ` + value + rest)); err == nil || err.Error() != want {
			t.Errorf("ports %s: %v, want %s", value, err, want)
		}
	}
}
