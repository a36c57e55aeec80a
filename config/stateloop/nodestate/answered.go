package nodestate

import (
	"maps"
	"slices"

	"edgespan/appnet"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer/task"
	"edgespan/netinst"
)

// View is what is desired of a node, and what the owners of it say, by the keys of the topics.
type View struct {
	Ports         map[string]netinst.PortConfig
	Networks      map[string]netinst.NetworkInstanceConfig
	NetworkStatus map[string]netinst.NetworkInstanceStatus
	Apps          map[string]appnet.AppNetworkConfig
	AppStatus     map[string]appnet.AppNetworkStatus
	AppRecords    map[string]appnet.JournalRecord
	Tasks         map[string]TaskConfig
	TaskStatus    map[string]task.Status
	Generation    uint64 // of the config that was published last
	Swept         uint64 // the one up to which tasks that are to be absent are gone, or were tried
	SweptKnown    bool
}

// Answered says whether every network, adapter, executor and check that is desired has answered its newest config.
func (v View) Answered() bool {
	ports := slices.Collect(maps.Values(v.Ports))
	for id, c := range v.Networks {
		s, known := v.NetworkStatus[id]
		if !known || s.Generation != c.Generation || s.DesiredPorts != netinst.DesiredPorts(c, ports) {
			return false
		}
	}
	if !v.SweptKnown || v.Swept != v.Generation {
		return false
	}
	for id, c := range v.Tasks {
		s, known := v.TaskStatus[id]
		if !known || s.Version != c.Generation || s.State == stateloop.Creating && s.Reason == "" {
			return false
		}
	}
	for id := range v.Apps {
		s, known := v.AppStatus[id]
		if !known || s.TargetVersion != v.AppRecords[id].TargetVersion || !spoken(s) {
			return false
		}
	}
	for id, c := range v.Apps { // last: it spells the whole config
		if v.AppRecords[id].Digest != appnet.Digest(c) {
			return false
		}
	}
	return true
}

// spoken says whether all adapters of an app have answered: one that says why it can't be, as
// that its namespace is not there yet, has answered too. Who waited for the world would
// confirm no config with an app that starts after it.
func spoken(s appnet.AppNetworkStatus) bool {
	return !s.Pending || len(s.Adapters) > 0 && !slices.ContainsFunc(s.Adapters, func(a appnet.AdapterStatus) bool {
		return a.TargetVersion != s.TargetVersion || !a.Activated && a.Error == ""
	})
}
