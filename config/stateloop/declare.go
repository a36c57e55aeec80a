package stateloop

import (
	"slices"
	"strconv"
	"strings"

	"edgespan/config"
	"edgespan/config/nodeconf"
)

// The kinds of parameters that a config declares, as nodes report them.
const (
	KindNetwork = "network-instance"
	KindAdapter = "app-adapter"
)

// NetworkID returns the ID of a network's parameter.
func NetworkID(network string) string { return "ni/" + network }

// AdapterID returns the ID of an adapter's parameter.
func AdapterID(app string, index int) string { return "adapter/" + app + "/" + strconv.Itoa(index) }

// DeclaredParameters returns the parameters that an effective config declares, by ID. Each network has the target
// present, activated or not. Each adapter of an activated app has the target present, otherwise absent, and depends on
// its network. The faults are those of nodeconf.Check.
func DeclaredParameters(effective config.Object) ([]DesiredParameter, error) {
	cfg, err := nodeconf.Effective(effective)
	if err != nil {
		return nil, err
	}
	var out []DesiredParameter
	for id := range cfg.Networks {
		out = append(out, DesiredParameter{ID: NetworkID(id.String()), Kind: KindNetwork, Target: ToBePresent})
	}
	for id, app := range cfg.Apps {
		target := ToBeAbsent
		if app.Activate {
			target = ToBePresent
		}
		for index, adapter := range app.Adapters {
			out = append(out, DesiredParameter{
				ID: AdapterID(id.String(), index), Kind: KindAdapter, Target: target,
				Dependencies: []string{NetworkID(adapter.NetworkInstance.String())},
			})
		}
	}
	slices.SortFunc(out, func(a, b DesiredParameter) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// RemovedParameters returns the parameters that a node reports and its config does not declare, whether an earlier one
// did or not, of the kinds that configs declare. Their target is absent until the node stops reporting them. It leaves
// out parameters of other kinds and those that are reported Absent.
func RemovedParameters(declared []DesiredParameter, reports []Reported) []DesiredParameter {
	known := make(map[string]bool, len(declared))
	for _, p := range declared {
		known[p.ID] = true
	}
	var out []DesiredParameter
	for _, r := range reports {
		if (r.Kind == KindNetwork || r.Kind == KindAdapter) && r.State != Absent && !known[r.ID] {
			known[r.ID] = true
			out = append(out, DesiredParameter{ID: r.ID, Kind: r.Kind, Target: ToBeAbsent})
		}
	}
	return out
}
