package appnet

import (
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
)

// Event is what a Machine is told.
type Event interface{ event() }

// ConfigChanged tells the wish for the app, the first one included.
type ConfigChanged struct{ Config AppNetworkConfig }

// ConfigDeleted tells that the app is not wanted any more. Order rises with each
// deletion on the node, restarts included.
type ConfigDeleted struct{ Order uint64 }

// NetworkOnline tells that the status of a network instance exists, and each change of it.
type NetworkOnline struct {
	NI     uuid.UUID
	Status netinst.NetworkInstanceStatus
}

// NetworkOffline tells that the status of a network instance was withdrawn.
type NetworkOffline struct{ NI uuid.UUID }

// NetworkDesired tells whether a network instance is in the config. It only chooses
// the words: a network that nobody told of is one that may come.
type NetworkDesired struct {
	NI      uuid.UUID
	Desired bool
}

// AdapterStatusChanged tells a status that stands in the scope of a network instance.
type AdapterStatusChanged struct {
	Scope  uuid.UUID
	Status netinst.AppAdapterStatus
}

// AdapterStatusGone tells that a status was withdrawn from a scope.
type AdapterStatusGone struct {
	Scope uuid.UUID
	Key   netinst.AdapterKey
}

// Synchronized tells that every retained input was replayed, the app's config
// included: what was not told until now does not exist. A Machine only listens
// before it, so that a slow replay is never taken for a removal.
type Synchronized struct{}

// ResendDue tells that the time asked for by a ResendAfter is over.
type ResendDue struct {
	Key   netinst.AdapterKey
	Token uint64
}

func (ConfigChanged) event()        {}
func (ConfigDeleted) event()        {}
func (NetworkOnline) event()        {}
func (NetworkOffline) event()       {}
func (NetworkDesired) event()       {}
func (AdapterStatusChanged) event() {}
func (AdapterStatusGone) event()    {}
func (Synchronized) event()         {}
func (ResendDue) event()            {}

// Effect is what a Machine wants done. Effects are carried out in order, each
// finished before the next.
type Effect interface{ effect() }

// PublishAdapterConfig publishes a config to a network instance's scope.
type PublishAdapterConfig struct {
	Scope  uuid.UUID
	Config netinst.AppAdapterConfig
}

// UnpublishAdapterConfig takes a config out of a scope.
type UnpublishAdapterConfig struct {
	Scope uuid.UUID
	Key   netinst.AdapterKey
}

// ResendAdapterConfig delivers the published config once more: an equal publish
// would be no event.
type ResendAdapterConfig struct {
	Scope uuid.UUID
	Key   netinst.AdapterKey
}

// PublishStatus publishes what the app network says of itself.
type PublishStatus struct{ Status AppNetworkStatus }

// WithdrawStatus takes the app's status away: nothing of it is left.
type WithdrawStatus struct{}

// Record puts the journal's record on disk, synced before the next effect: a
// version is never published before a crash can remember it.
type Record struct{ Journal JournalRecord }

// ResendAfter asks for a ResendDue with the same token after a time. A token
// that is not the newest of its adapter is without effect when it comes.
type ResendAfter struct {
	Key   netinst.AdapterKey
	Token uint64
	After time.Duration
}

// Done says that nothing of the app is left: the actor may stop. A Machine that
// hears of a new config nevertheless goes on.
type Done struct{}

func (PublishAdapterConfig) effect()   {}
func (UnpublishAdapterConfig) effect() {}
func (ResendAdapterConfig) effect()    {}
func (PublishStatus) effect()          {}
func (WithdrawStatus) effect()         {}
func (Record) effect()                 {}
func (ResendAfter) effect()            {}
func (Done) effect()                   {}

// JournalRecord is what is remembered of one app on disk, also after its
// deletion: the last version and the digest of the config that it counts
// (docs/architecture.md, law 3). The zero value is an app never seen.
type JournalRecord struct {
	TargetVersion uint64 `json:"targetVersion"`
	Digest        string `json:"digest"` // see Digest
	Deleted       bool   `json:"deleted,omitempty"`
	Order         uint64 `json:"order,omitempty"` // of the deletion, see ConfigDeleted
}

// Above is the record from which an app counts on where numbers up to floor may have been
// given out and not written: no config is counted by one of them again.
func (r JournalRecord) Above(floor uint64) JournalRecord {
	if r.TargetVersion >= floor {
		return r
	}
	return JournalRecord{TargetVersion: floor}
}

// PublishedConfig is one config that stands in a scope's topic.
type PublishedConfig struct {
	Scope  uuid.UUID
	Config netinst.AppAdapterConfig
}
