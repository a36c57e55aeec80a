package nodestate

import (
	"maps"
	"slices"

	"edgespan/appnet"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer/task"
	"edgespan/netinst"
)

// View is the desired state of a node and the reports of its owners, by the keys of the topics.
type View struct {
	Ports         map[string]netinst.PortConfig
	Networks      map[string]netinst.NetworkInstanceConfig
	NetworkStatus map[string]netinst.NetworkInstanceStatus
	Apps          map[string]appnet.AppNetworkConfig
	AppStatus     map[string]appnet.AppNetworkStatus
	AppRecords    map[string]appnet.JournalRecord
	Tasks         map[string]TaskConfig
	TaskStatus    map[string]task.Status
	Generation    uint64 // of the config published last
	Swept         uint64 // generation up to which the tasks to remove are gone or were tried
	SweptKnown    bool
}

// AllAnswered reports whether every desired network, adapter, executor and check has answered its newest config.
func (v View) AllAnswered() bool {
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
		if !known || s.TargetVersion != v.AppRecords[id].TargetVersion || !hasAnswered(s) {
			return false
		}
	}
	for id, c := range v.Apps { // last, since it encodes the complete config
		if v.AppRecords[id].Digest != appnet.Digest(c) {
			return false
		}
	}
	return true
}

// hasAnswered reports whether all adapters of an app have answered. An adapter that reports an error, such as a missing
// network namespace, has answered too: otherwise no config with an app that starts later could be confirmed.
func hasAnswered(s appnet.AppNetworkStatus) bool {
	return !s.Pending || len(s.Adapters) > 0 && !slices.ContainsFunc(s.Adapters, func(a appnet.AdapterStatus) bool {
		return a.TargetVersion != s.TargetVersion || !a.Activated && a.Error == ""
	})
}
