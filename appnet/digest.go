package appnet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"edgespan/netinst"
)

// Digest is the SHA-256 of a config's canonical JSON in hexadecimal: two configs with one digest are equal. Lists keep
// their order, maps are sorted by key, and an empty list equals none.
func Digest(c AppNetworkConfig) string {
	adapters := maps.Clone(c.Adapters)
	for i, a := range adapters {
		adapters[i] = canonical(a)
	}
	if len(adapters) == 0 {
		adapters = nil
	}
	c.Adapters = adapters
	// Strings, numbers and text marshalers cannot fail: there is no error to return.
	text, _ := json.Marshal(c)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func canonical(a netinst.AdapterSpec) netinst.AdapterSpec {
	a.ACL = slices.Clone(a.ACL)
	if len(a.ACL) == 0 {
		a.ACL = nil
	}
	for i := range a.ACL {
		if len(a.ACL[i].Ports) == 0 {
			a.ACL[i].Ports = nil
		}
		if len(a.ACL[i].LocalPort) == 0 {
			a.ACL[i].LocalPort = nil
		}
	}
	return a
}
