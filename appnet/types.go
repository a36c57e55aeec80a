package appnet

import (
	"github.com/google/uuid"

	"edgespan/netinst"
)

// AppNetworkConfig is the config of all adapters of one app, with every default filled in (seed "Application network").
type AppNetworkConfig struct {
	UUID        uuid.UUID
	DisplayName string
	Activate    bool
	Adapters    map[int]netinst.AdapterSpec // by AdapterKey.Index
}

// AdapterStatus is one adapter as its app network reports it.
type AdapterStatus struct {
	Index           int
	NetworkInstance uuid.UUID
	TargetVersion   uint64
	Activated       bool
	Link            netinst.AdapterLink
	Error           string
	Waiting         bool // Error describes what it waits for, not a failure
	CheckFailed     bool `json:",omitempty"` // no op failed, Error describes what was found afterwards
}

// State returns the state of the adapter, desired or to be absent (seed opendut-configuration-state-loop, the tables of
// states).
func (a AdapterStatus) State(desired bool) netinst.NIState {
	failed := a.Error != "" && !a.Waiting
	switch {
	case desired && a.Activated:
		return netinst.Present
	case desired && failed && a.CheckFailed:
		return netinst.CheckPresentFailed
	case desired && failed:
		return netinst.CreatingFailed
	case desired:
		return netinst.WaitingForDependencies
	case failed && a.CheckFailed:
		return netinst.CheckAbsentFailed
	case failed:
		return netinst.RemovingFailed
	}
	return netinst.Removing
}

// AppNetworkStatus is the status of an app network. Only the function Pending clears Pending.
type AppNetworkStatus struct {
	UUID          uuid.UUID
	DisplayName   string
	Pending       bool
	Activated     bool
	TargetVersion uint64
	Error         string
	Adapters      []AdapterStatus // by Index
}
