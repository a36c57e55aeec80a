package probe

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Method is how a probe asks its target.
type Method string

// The methods. A target of each is: ARP and ND (neighbour discovery, RFC 4861) a gateway's address, ICMP an address or
// a host name, TCP "host:port", HTTP a URL, DNS the address of a server.
const (
	ARP  Method = "arp"
	ND   Method = "nd"
	ICMP Method = "icmp"
	TCP  Method = "tcp"
	HTTP Method = "http"
	DNS  Method = "dns"
)

// ID is everything that determines a probe. Networks that need equal probes share one.
type ID struct {
	Port     string // label
	IfName   string // the shot leaves by this interface alone
	Method   Method
	Target   string
	Interval time.Duration
	Timeout  time.Duration
	// Servers are the DNS servers that resolve a target's host name, by commas: a port's own.
	Servers string
	Body    string // of HTTP: a part of the page; "": any page
	IPv6    bool   // a host name stands for its IPv6 address
}

// String is the key of the topics.
func (id ID) String() string {
	words := []string{id.Port, id.IfName, string(id.Method), id.Target, id.Interval.String(), id.Timeout.String(),
		id.Servers, id.Body}
	if id.IPv6 {
		words = append(words, "ipv6")
	}
	return strings.Join(words, "|")
}

// ofIPv6 ends the name of an IPv6 twin. No label and no value of `port` has a space.
const ofIPv6 = " (IPv6)"

// OfIPv6 returns the selector by which IPv6 chooses among the ports of a selector, and the name of a port's IPv6.
func OfIPv6(name string) string { return name + ofIPv6 }

// IsOfIPv6 reports whether a name is one that OfIPv6 returned.
func IsOfIPv6(name string) bool { return strings.HasSuffix(name, ofIPv6) }

// ServerAddrs returns the addresses of Servers.
func (id ID) ServerAddrs() (list []netip.Addr) {
	for s := range strings.SplitSeq(id.Servers, ",") {
		if a, err := netip.ParseAddr(s); err == nil {
			list = append(list, a)
		}
	}
	return list
}

// Outcome is how one shot of a probe ended. Error is "" if the target answered, after Took. None means that it
// can't be sent (ErrNone).
type Outcome struct {
	At     time.Time
	Took   time.Duration
	Lasted time.Duration // with what comes before the question, such as the resolution of a name
	Error  string
	None   bool
}

// OK reports whether the target answered.
func (o Outcome) OK() bool { return o.Error == "" && !o.None }

// Outcomes are the newest outcomes of one probe.
type Outcomes struct {
	ID    ID
	Count uint64 // of all outcomes
	// Failed counts those in which the target did not answer.
	Failed uint64
	Last   []Outcome // oldest first, at most MaxLast
}

// MaxLast bounds Outcomes.Last.
const MaxLast = 64

// Add returns o with one more outcome. The slice of o is left as it is: others may read it.
func (o Outcomes) Add(next Outcome) Outcomes {
	last := o.Last
	if len(last) >= MaxLast {
		last = last[len(last)-MaxLast+1:]
	}
	o.Last = append(append(make([]Outcome, 0, len(last)+1), last...), next)
	o.Count++
	if !next.OK() && !next.None {
		o.Failed++
	}
	return o
}

// Telling reports whether the newest outcome may matter to a network: a failure, one of the successes after a failure
// or a start, or one of ten others, which tell the latency.
func (o Outcomes) Telling() bool {
	failed := func(x Outcome) bool { return !x.OK() }
	return o.Count < afterFailure || o.Count%10 == 0 ||
		slices.ContainsFunc(o.Last[max(0, len(o.Last)-afterFailure):], failed)
}

// afterFailure is the number of outcomes that are told after a failure.
const afterFailure = 16

// ErrNone means that a probe can't be sent by its interface, which says nothing about the port: it has no ARP, or the
// host has no route to the target by it, as by a port whose gateway only the config knows.
var ErrNone = errors.New("no such probe")

// ErrNotAsked means that the node itself kept a shot from leaving, as a firewall rule of another program for the host's
// own packets does, or a lack of memory. It is no outcome: it would make every port fail, one after the other, and move
// each network to the last of them.
var ErrNotAsked = errors.New("not asked")

// Since returns the outcomes after the first count ones, as far as they are still there.
func (o Outcomes) Since(count uint64) []Outcome {
	if count > o.Count {
		count = 0 // the runner began anew
	}
	return o.Last[max(0, len(o.Last)-int(min(o.Count-count, MaxLast))):]
}

// Summary is what the newest outcomes of a probe say, by no network's thresholds.
type Summary struct {
	Asked    bool          // there is an outcome
	None     bool          // the interface has no such probe
	Failures int           // in a row, up to the newest outcome
	Loss     int           // percent of the shots in Outcomes.Last
	Latency  time.Duration // mean of the answers among them
	Answered time.Time     // of the newest answer; zero for none
	Error    string        // of the newest failure; "" for none
	FailedAt time.Time
}

// Summary sums up the outcomes.
func (o Outcomes) Summary() (s Summary) {
	shots, answers, took := 0, 0, time.Duration(0)
	for _, x := range o.Last {
		if s.Asked, s.None = true, x.None; x.None {
			continue
		}
		shots++
		if !x.OK() {
			s.Failures++
			s.Error, s.FailedAt = x.Error, x.At
			continue
		}
		answers++
		took += x.Took
		s.Failures, s.Answered = 0, x.At
	}
	if shots > 0 {
		s.Loss = (100*(shots-answers) + shots/2) / shots
	}
	if answers > 0 {
		s.Latency = rounded(took / time.Duration(answers))
	}
	return s
}

// Config is how a network judges its uplinks. The zero value means the defaults.
type Config struct {
	Method       Method        // of Targets; "" with none
	Targets      []string      // remote; a family without one: the port's DNS servers that are not its neighbours
	Interval     time.Duration // 0: DefaultInterval
	Timeout      time.Duration // 0: DefaultTimeout
	FailAfter    int           // failures in a row; 0: DefaultFailAfter
	RecoverAfter int           // successes in a row; 0: DefaultRecoverAfter
	Hold         time.Duration // the first hold-down; 0: DefaultHold
	Quorum       int           // how many targets of a family must answer, or all if they are fewer; 0: 1
	MaxLoss      int           // percent; 0: no limit
	MaxLatency   time.Duration // 0: no limit
	Body         string        `json:",omitempty"` // a part of each page that Targets name; "": any page
}

// The defaults.
const (
	DefaultInterval     = time.Second
	DefaultTimeout      = 800 * time.Millisecond
	DefaultFailAfter    = 8
	DefaultRecoverAfter = 3
	DefaultHold         = 10 * time.Second
	// MeteredInterval is the shortest interval on a metered port.
	MeteredInterval = 30 * time.Second
)
