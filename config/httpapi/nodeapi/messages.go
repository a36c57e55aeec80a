package nodeapi

import (
	"net/netip"
	"time"
)

// LeaseStatus is what DHCP has last said of the address of an adapter. The id of its Resource is that of the adapter.
type LeaseStatus struct {
	Name    string `json:"name"`    // display name of the app
	Network string `json:"network"` // UUID
	// State is assigned, renewed, mismatched (with Expected), released, declined (the app found the address in use),
	// refused (by the server), expired, or none: nothing was observed.
	State    string     `json:"state"`
	Address  netip.Addr `json:"address,omitzero"`
	Expected netip.Addr `json:"expected,omitzero"` // that edgespan gave the adapter; none on a switch
	MAC      string     `json:"mac"`
	Server   netip.Addr `json:"server,omitzero"`
	At       time.Time  `json:"at,omitzero"`    // when State was observed
	Until    time.Time  `json:"until,omitzero"` // absent of a lease without an end
	Renewals uint64     `json:"renewals"`
	Refusals uint64     `json:"refusals"`
	Recorded bool       `json:"recorded,omitempty"` // read from the server's file: it was assigned before At
}

// NoLease is the state of a lease of which nothing was observed.
const NoLease = "none"

// DNSStatus is what an adapter's app has asked DNS servers, as far as the messages were read. The id of its Resource is
// that of the adapter.
type DNSStatus struct {
	Name    string            `json:"name"`    // display name of the app
	Network string            `json:"network"` // UUID
	Queries uint64            `json:"queries"`
	Answers map[string]uint64 `json:"answers"` // by response code: NOERROR, NXDOMAIN, SERVFAIL, REFUSED or OTHER
	Evicted uint64            `json:"evicted"` // answers that newer ones have replaced in Recent
	Unread  uint64            `json:"unread"`  // messages of the whole network that were not read
	Recent  []DNSAnswer       `json:"recent"`  // the newest first, one for each question
}

// DNSAnswer is the last answer to one question.
type DNSAnswer struct {
	Name       string       `json:"name"` // lower case; octets that are no printable ASCII are \DDD
	Type       string       `json:"type"`
	RCode      string       `json:"rcode"` // as in DNSStatus.Answers, or a number
	Addresses  []netip.Addr `json:"addresses,omitempty"`
	TTLSeconds int64        `json:"ttlSeconds"`
	Server     netip.Addr   `json:"server"`
	TCP        bool         `json:"tcp,omitempty"`
	Truncated  bool         `json:"truncated,omitempty"` // the server had more to say
	Partial    bool         `json:"partial,omitempty"`   // not all of it was read
	At         time.Time    `json:"at"`
	Count      uint64       `json:"count"` // of answers to the question since it is in the list
}
