package nodeapi

import "time"

// UplinkChoice is the decision of a network about one value of `port`: its own, or that of routes.
type UplinkChoice struct {
	Selector string      `json:"selector"`
	IPv6     bool        `json:"ipv6,omitempty"`   // it is about IPv6, which has a port of its own
	Routes   []string    `json:"routes,omitempty"` // names of the routes that have this value
	Own      bool        `json:"own,omitempty"`    // the network itself has it
	Port     string      `json:"port"`             // in use; "" for none
	Since    time.Time   `json:"since"`
	Why      string      `json:"why"`
	Ports    []PortScore `json:"ports"` // that the value selects, the best first
	// Flows is the network's policy for flows on a port that it leaves, if that is not reset.
	Flows string `json:"flows,omitempty"`
	// AllFlows means that all flows use Port, whatever Flows and the network's share are: IPv6 with a routed prefix.
	AllFlows bool `json:"allFlows,omitempty"`
	// Shares are the ports over which new flows are spread, if there are several.
	Shares []string `json:"shares,omitempty"`
}

// PortScore is how a network judges one port. Why says why it is in no better class.
type PortScore struct {
	Port      string    `json:"port"`
	Class     string    `json:"class"`
	Since     time.Time `json:"since"` // when the class changed, since the daemon's start
	Cost      int       `json:"cost"`
	Loss      int       `json:"loss,omitempty"`      // percent
	LatencyMs float64   `json:"latencyMs,omitempty"` // 0: unknown
	HeldUntil time.Time `json:"heldUntil,omitzero"`
	Why       string    `json:"why,omitempty"`
}

// PortDetail is what an Explanation says of a port in addition.
type PortDetail struct {
	IfName       string    `json:"ifName"`
	Drained      bool      `json:"drained,omitempty"`
	DrainedUntil time.Time `json:"drainedUntil,omitzero"` // absent: until it is undrained
	DrainedBy    string    `json:"drainedBy,omitempty"`
	// ProbeBytesPerDay is what the probes of a metered port may send and receive, ProbeBytesLeft how many of them at once;
	// less than 0: probes wait.
	ProbeBytesPerDay int          `json:"probeBytesPerDay,omitempty"`
	ProbeBytesLeft   int          `json:"probeBytesLeft,omitempty"`
	Probes           []ProbeState `json:"probes"`
	Networks         []PortUse    `json:"networks"` // that may use the port
}

// ProbeState is what the newest outcomes of a probe say, by no network's thresholds.
type ProbeState struct {
	Method     string        `json:"method"`
	Target     string        `json:"target"`
	IPv6       bool          `json:"ipv6,omitempty"` // the target is a host name, and its IPv6 address is probed
	IntervalMs int64         `json:"intervalMs"`
	State      string        `json:"state"`               // one of ProbeAnswers and those after it
	Failures   int           `json:"failures,omitempty"`  // in a row, up to the newest outcome
	Loss       int           `json:"loss,omitempty"`      // percent of the newest outcomes
	LatencyMs  float64       `json:"latencyMs,omitempty"` // mean of the answers among them
	Answered   time.Time     `json:"answered,omitzero"`   // the newest answer among them
	LastError  string        `json:"lastError,omitempty"` // the newest failure among them
	FailedAt   time.Time     `json:"failedAt,omitzero"`   // when
	Networks   []NetworkName `json:"networks"`            // that need the probe
}

// The states of a probe.
const (
	ProbeAnswers = "answers"
	ProbeFails   = "fails"
	ProbeUnknown = "unknown" // not asked yet
	ProbeNone    = "none"    // the interface has no such probe
)

// PortUse is a network that may use a port, by one value of `port`. What it uses instead is in Instead.
type PortUse struct {
	NetworkName

	Selector string    `json:"selector"`
	IPv6     bool      `json:"ipv6,omitempty"` // it is about IPv6
	Uses     bool      `json:"uses"`
	Since    time.Time `json:"since"` // when the network took the port that it uses
	Instead  string    `json:"instead,omitempty"`
	Score    PortScore `json:"score"`
	Failed   int       `json:"failed,omitempty"` // how often it failed in service; each doubles the hold-down
	FailedAt time.Time `json:"failedAt,omitzero"`
}
