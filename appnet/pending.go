package appnet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"edgespan/netinst"
)

// AdapterScope is one adapter in the scope of one network instance: a place where its config may be published.
type AdapterScope struct {
	Scope uuid.UUID
	Key   netinst.AdapterKey
}

// Network is what an app network knows of a network instance. Its name is kept when it goes offline, for error
// messages.
type Network struct {
	DisplayName string
	Online      bool
	Undesired   bool // it is not in the config
}

// View is everything that decides whether an app is pending.
type View struct {
	Config        *AppNetworkConfig // nil: no config
	TargetVersion uint64            // AppNetworkStatus.TargetVersion
	Networks      map[uuid.UUID]Network
	Statuses      map[AdapterScope]netinst.AppAdapterStatus
	Published     map[AdapterScope]netinst.AppAdapterConfig
}

// Pending reports whether an app is pending and the first reason, "" if it is not (seed "Application network", the
// three conditions of the Pending flag; design §2). No other code sets or clears the flag.
func Pending(v View) (bool, string) {
	for _, i := range v.indices() {
		for _, p := range v.leftovers() {
			if p.Key.Index == i {
				return true, reason(i, "is still on network instance %s", v.name(p.Scope))
			}
		}
		if !v.wantsAdapter(i) {
			continue
		}
		p := v.place(i)
		s, answered := v.Statuses[p]
		name := v.name(p.Scope)
		switch {
		case !v.Networks[p.Scope].Online:
			return true, reason(i, "%s", v.offline(p.Scope))
		case !answered:
			return true, reason(i, "network instance %s has not answered", name)
		case s.TargetVersion != v.TargetVersion:
			return true, reason(i, "network instance %s has answered version %d, not %d", name, s.TargetVersion, v.TargetVersion)
		case s.Activated != v.Config.Activate && v.Config.Activate:
			return true, reason(i, "is not active on network instance %s", name)
		case s.Activated != v.Config.Activate:
			return true, reason(i, "is still active on network instance %s", name)
		}
	}
	return false, ""
}

func reason(index int, format string, args ...any) string {
	return fmt.Sprintf("adapter %d: ", index) + fmt.Sprintf(format, args...)
}

// wantsAdapter reports whether the config has an adapter with that index.
func (v View) wantsAdapter(index int) bool {
	if v.Config == nil {
		return false
	}
	_, ok := v.Config.Adapters[index]
	return ok
}

// place returns the place of an adapter in the config.
func (v View) place(index int) AdapterScope {
	key := netinst.AdapterKey{AppUUID: v.Config.UUID, Index: index}
	return AdapterScope{v.Config.Adapters[index].NetworkInstance, key}
}

// leftovers lists, in order, every place that is not desired and still has a config or a status.
func (v View) leftovers() []AdapterScope {
	var out []AdapterScope
	for p := range v.Published {
		if !v.wantsAdapterOn(p) {
			out = append(out, p)
		}
	}
	for p := range v.Statuses {
		if _, listed := v.Published[p]; !listed && !v.wantsAdapterOn(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, inOrder)
	return out
}

// wantsAdapterOn reports whether the config has a place's adapter on that network.
func (v View) wantsAdapterOn(p AdapterScope) bool {
	return v.wantsAdapter(p.Key.Index) && v.place(p.Key.Index) == p
}

// indices lists every adapter that is desired or left.
func (v View) indices() []int {
	set := map[int]bool{}
	if v.Config != nil {
		for i := range v.Config.Adapters {
			set[i] = true
		}
	}
	for _, p := range v.leftovers() {
		set[p.Key.Index] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// offline returns why a network instance is not online.
func (v View) offline(ni uuid.UUID) string {
	if v.Networks[ni].Undesired {
		return "network instance " + v.name(ni) + " is not in the config"
	}
	return "network instance " + v.name(ni) + " is not online"
}

// name returns the display name of a network instance.
func (v View) name(ni uuid.UUID) string {
	return cmp.Or(v.Networks[ni].DisplayName, ni.String())
}

func inOrder(a, b AdapterScope) int {
	return cmp.Or(
		cmp.Compare(a.Key.Index, b.Key.Index),
		slices.Compare(a.Scope[:], b.Scope[:]),
	)
}
