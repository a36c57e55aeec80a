package nodestate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/netinst"
)

// ObjectVersion is the generation in which an object's content last changed.
type ObjectVersion struct {
	Generation uint64 `json:"generation"`
	Digest     string `json:"digest"`
}

// UpdateVersions returns the generations of objects: the given one for objects that changed, the old one for the
// others. So an apply does not touch unchanged objects.
func UpdateVersions[K comparable, V any](old map[string]ObjectVersion, objects map[K]V,
	generation uint64) map[string]ObjectVersion {
	vs := make(map[string]ObjectVersion, len(objects))
	for k, o := range objects {
		key := fmt.Sprint(k)
		text, err := json.Marshal(o)
		if err != nil {
			panic(fmt.Errorf("spell object %s: %w", key, err)) // a type that JSON can't encode
		}
		v := ObjectVersion{Generation: generation, Digest: Digest(text)}
		if was, ok := old[key]; ok && was.Digest == v.Digest {
			v = was
		}
		vs[key] = v
	}
	return vs
}

// Digest returns the SHA-256 of a text in hex.
func Digest(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// AppsByNetwork returns the apps with an adapter on each network, sorted. A bridge manager waits for them at its start.
func AppsByNetwork(apps map[uuid.UUID]appnet.AppNetworkConfig) map[string][]string {
	on := map[string][]string{}
	for id, a := range apps {
		seen := map[uuid.UUID]bool{}
		for _, u := range a.Adapters {
			if ni := u.NetworkInstance; !seen[ni] {
				seen[ni] = true
				on[ni.String()] = append(on[ni.String()], id.String())
			}
		}
	}
	for _, ids := range on {
		slices.Sort(ids)
	}
	return on
}

// WithDriftObserved returns the networks; with observe set, their drift is reported and not repaired.
func WithDriftObserved(networks map[uuid.UUID]netinst.NetworkInstanceConfig,
	observe bool) map[uuid.UUID]netinst.NetworkInstanceConfig {
	if !observe {
		return networks
	}
	out := make(map[uuid.UUID]netinst.NetworkInstanceConfig, len(networks))
	for id, n := range networks {
		n.Observe = true
		out[id] = n
	}
	return out
}
