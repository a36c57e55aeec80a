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

// NetworkID is the id of a network's parameter.
func NetworkID(network string) string { return "ni/" + network }

// AdapterID is the id of an adapter's parameter.
func AdapterID(app string, index int) string { return "adapter/" + app + "/" + strconv.Itoa(index) }

// Declared are the parameters that an effective config declares, by ID: each network that it
// has is to be present, activated or not; each adapter of an app is to be present where the
// app is activated, else absent, and depends on its network. Faults are those of
// nodeconf.Check.
func Declared(effective config.Object) ([]Desired, error) {
	cfg, err := nodeconf.Effective(effective)
	if err != nil {
		return nil, err
	}
	var out []Desired
	for id := range cfg.Networks {
		out = append(out, Desired{ID: NetworkID(id.String()), Kind: KindNetwork, Target: ToBePresent})
	}
	for id, app := range cfg.Apps {
		target := ToBeAbsent
		if app.Activate {
			target = ToBePresent
		}
		for index, adapter := range app.Adapters {
			out = append(out, Desired{
				ID: AdapterID(id.String(), index), Kind: KindAdapter, Target: target,
				Dependencies: []string{NetworkID(adapter.NetworkInstance.String())},
			})
		}
	}
	slices.SortFunc(out, func(a, b Desired) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// Removed are the parameters that a node reports and its config no longer declares, of the
// kinds that configs declare: they are to be absent, until the node reports them no more.
// Reports of other kinds are nobody's to remove, and what is reported Absent is gone.
func Removed(declared []Desired, reports []Reported) []Desired {
	has := make(map[string]bool, len(declared))
	for _, w := range declared {
		has[w.ID] = true
	}
	var out []Desired
	for _, r := range reports {
		if (r.Kind == KindNetwork || r.Kind == KindAdapter) && r.State != Absent && !has[r.ID] {
			has[r.ID] = true
			out = append(out, Desired{ID: r.ID, Kind: r.Kind, Target: ToBeAbsent})
		}
	}
	return out
}
