package appnet

import (
	"github.com/google/uuid"

	"edgespan/netinst"
)

// AppNetworkConfig is the wish for all adapters of one app, with every default
// filled in (seed "Application network").
type AppNetworkConfig struct {
	UUID        uuid.UUID
	DisplayName string
	Activate    bool
	Adapters    map[int]netinst.UnderlayNetworkConfig // by UnderlayIndex
}

// AdapterStatus is one adapter as its app network reports it.
type AdapterStatus struct {
	Index           int
	NetworkInstance uuid.UUID
	TargetVersion   uint64
	Activated       bool
	UnderlayStatus  netinst.UnderlayNetworkStatus
	Error           string
	Waiting         bool // Error tells of what is waited for, not of a failure
	CheckFailed     bool `json:",omitempty"` // nothing failed that was done, Error tells of what was found then
}

// AppNetworkStatus is what an app network says of itself. Pending is cleared
// only by the function Pending.
type AppNetworkStatus struct {
	UUID          uuid.UUID
	DisplayName   string
	Pending       bool
	Activated     bool
	TargetVersion uint64
	Error         string
	Adapters      []AdapterStatus // by Index
}
