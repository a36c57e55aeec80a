package nodeconf

import (
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
)

// TapMTUs returns the faults of networks with a tap whose MTU is above the limit of a tap device, by UUID. Parse
// reports them as warnings, since existing configs may have them; the links then get the limit.
func TapMTUs(cfg Config) map[uuid.UUID]config.Fault {
	found := map[uuid.UUID]config.Fault{}
	first := map[uuid.UUID]string{} // the first path in sort order
	for id, app := range cfg.Apps {
		for i, a := range app.Adapters {
			ni := a.NetworkInstance
			if a.Kind != netinst.Tap || cfg.Networks[ni].MTU <= netinst.MaxTapMTU { // 0 for a network without config
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
