package nodeconf

import (
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
)

// TapMTUs are the faults of networks whose mtu is above what a tap device takes and that have
// one, by uuid. They are no faults of Parse, since such a config may stand: its links get what a
// tap takes then, and it is warned of.
func TapMTUs(cfg Config) map[uuid.UUID]config.Fault {
	found := map[uuid.UUID]config.Fault{}
	first := map[uuid.UUID]string{} // whichever comes first in the order of their paths
	for id, app := range cfg.Apps {
		for i, a := range app.Adapters {
			ni := a.NetworkInstance
			if a.Kind != netinst.Tap || cfg.Networks[ni].MTU <= netinst.MaxTapMTU { // 0 of one without config
				continue
			}
			path := config.FormatPath([]string{"appNetworks", id.String(), "adapters", strconv.Itoa(i), "attach"})
			if was := first[ni]; was == "" || path < was {
				first[ni] = path
			}
		}
	}
	for id, path := range first {
		found[id] = config.Fault{
			Path:        []string{"networkInstances", id.String(), "mtu"},
			Problem:     fmt.Sprintf("invalid value %d", cfg.Networks[id].MTU),
			Expectation: fmt.Sprintf("must be at most %d, as much as the tap of %s takes", netinst.MaxTapMTU, path),
		}
	}
	return found
}
