package nodeconf

import (
	"maps"
	"slices"

	"github.com/google/uuid"

	"edgespan/config"
)

// Enforce returns a document whose config has no observe for an app's adapters, or for the one with this index, and the
// paths of those that it had; index is "" for all. The document must be valid.
func Enforce(doc config.Object, app uuid.UUID, index string) (config.Object, []string) {
	const observe = "observe"
	apps, _ := doc["appNetworks"].(config.Object)
	var paths []string
	for _, key := range slices.Sorted(maps.Keys(apps)) {
		if id, _ := parseUUID(key); id != app {
			continue
		}
		adapters, _ := config.Lookup(apps, []string{key, "adapters"})
		list, _ := adapters.(config.Object)
		for _, i := range slices.Sorted(maps.Keys(list)) {
			path := []string{"appNetworks", key, "adapters", i, observe}
			if on, _ := config.Lookup(doc, path); on == true && (index == "" || index == i) {
				doc = config.Unset(doc, path)
				paths = append(paths, config.FormatPath(path))
			}
		}
	}
	return doc, paths
}
