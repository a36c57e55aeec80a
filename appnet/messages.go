package appnet

import (
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
)

// Event is an input of a Machine.
type Event interface{ event() }

// ConfigChanged carries the config of the app, including the first one.
type ConfigChanged struct{ Config AppNetworkConfig }

// ConfigDeleted reports that the app's config was deleted. Order rises with each deletion on the node, also across
// restarts.
type ConfigDeleted struct{ Order uint64 }

// NetworkOnline reports that the status of a network instance exists, and each change of it.
type NetworkOnline struct {
	NI     uuid.UUID
	Status netinst.NetworkInstanceStatus
}

// NetworkOffline reports that the status of a network instance was withdrawn.
type NetworkOffline struct{ NI uuid.UUID }

// NetworkDesired reports whether a network instance is in the config. It affects only error texts: a network without
// this event may still come.
type NetworkDesired struct {
	NI      uuid.UUID
	Desired bool
}

// NetworkForgotten reports that a network instance is not followed any more: the config does not name it, and Uses says
// that nothing is left there.
type NetworkForgotten struct{ NI uuid.UUID }

// AdapterStatusChanged carries a status in the scope of a network instance.
type AdapterStatusChanged struct {
	Scope  uuid.UUID
	Status netinst.AppAdapterStatus
}

// AdapterStatusGone reports that a status was withdrawn from a scope.
type AdapterStatusGone struct {
	Scope uuid.UUID
	Key   netinst.AdapterKey
}

// Synchronized reports that every retained input was replayed, including the app's config: anything not reported by now
// does not exist. Before it a Machine only listens, so that a slow replay is never taken for a removal.
type Synchronized struct{}

// ResendDue reports that the delay of a ResendAfter is over.
type ResendDue struct {
	Key   netinst.AdapterKey
	Token uint64
}

func (ConfigChanged) event()        {}
func (ConfigDeleted) event()        {}
func (NetworkOnline) event()        {}
func (NetworkOffline) event()       {}
func (NetworkDesired) event()       {}
func (NetworkForgotten) event()     {}
func (AdapterStatusChanged) event() {}
func (AdapterStatusGone) event()    {}
func (Synchronized) event()         {}
func (ResendDue) event()            {}

// Effect is an output of a Machine. Effects are carried out in order, each finished before the next.
type Effect interface{ effect() }

// PublishAdapterConfig publishes a config to a network instance's scope.
type PublishAdapterConfig struct {
	Scope  uuid.UUID
	Config netinst.AppAdapterConfig
}

// UnpublishAdapterConfig withdraws a config from a scope.
type UnpublishAdapterConfig struct {
	Scope uuid.UUID
	Key   netinst.AdapterKey
}

// ResendAdapterConfig delivers the published config again: an equal publish would be no event.
type ResendAdapterConfig struct {
	Scope uuid.UUID
	Key   netinst.AdapterKey
}

// PublishStatus publishes the status of the app network.
type PublishStatus struct{ Status AppNetworkStatus }

// WithdrawStatus withdraws the app's status, as nothing of the app is left.
type WithdrawStatus struct{}

// Record writes the journal's record, synced before the next effect: a version is never published before it would
// survive a crash.
type Record struct{ Journal JournalRecord }

// ResendAfter asks for a ResendDue with the same token after a delay. Only the newest token of an adapter counts.
type ResendAfter struct {
	Key   netinst.AdapterKey
	Token uint64
	After time.Duration
}

// Done reports that nothing of the app is left: the actor may stop. A Machine that receives a new config nevertheless
// continues.
type Done struct{}

func (PublishAdapterConfig) effect()   {}
func (UnpublishAdapterConfig) effect() {}
func (ResendAdapterConfig) effect()    {}
func (PublishStatus) effect()          {}
func (WithdrawStatus) effect()         {}
func (Record) effect()                 {}
func (ResendAfter) effect()            {}
func (Done) effect()                   {}

// JournalRecord is what the journal keeps of one app, also after its deletion: the last version and the digest of its
// config (docs/architecture.md, law 3). The zero value is an unknown app.
type JournalRecord struct {
	TargetVersion uint64 `json:"targetVersion"`
	Digest        string `json:"digest"` // see Digest
	Deleted       bool   `json:"deleted,omitempty"`
	Order         uint64 `json:"order,omitempty"` // of the deletion, see ConfigDeleted
}

// Above returns the record from which an app continues to count if numbers up to floor may have been assigned and not
// written: no config gets one of them again.
func (r JournalRecord) Above(floor uint64) JournalRecord {
	if r.TargetVersion >= floor {
		return r
	}
	return JournalRecord{TargetVersion: floor}
}

// PublishedConfig is one config in a scope's topic.
type PublishedConfig struct {
	Scope  uuid.UUID
	Config netinst.AppAdapterConfig
}
