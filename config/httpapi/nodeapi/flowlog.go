package nodeapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"edgespan/config/httpapi/rest"
)

// The kinds of lines of the flow log.
const (
	FlowEnded  = "end"    // a flow has ended
	FlowGoesOn = "active" // a flow goes on, and is 5 minutes old or more: what was counted so far
	FlowDenied = "denied" // a packet was denied: one of several, if many are
	FlowsLost  = "lost"   // FlowRecord.Lost lines are missing here: they came faster than they could be written
)

// MaxFlowLines bounds FlowLogQuery.Last: the daemon holds them in memory.
const MaxFlowLines = 10000

// FlowRecord is one line of the flow log: one flow of one adapter.
type FlowRecord struct {
	Time      time.Time `json:"time"`                // when it was recorded
	Kind      string    `json:"kind"`                // FlowEnded, FlowGoesOn, FlowDenied or FlowsLost
	Network   string    `json:"network,omitempty"`   // "ni/<uuid>"
	Adapter   string    `json:"adapter,omitempty"`   // "adapter/<app>/<index>"
	Name      string    `json:"name,omitempty"`      // display name of the app
	Direction string    `json:"direction,omitempty"` // egress: the app began it; ingress
	Protocol  string    `json:"protocol,omitempty"`  // tcp, udp, icmp or a number
	// Local is the app's address and port, Remote that of the other end as the app sees it, and NAT what the other end
	// sees instead of Local, "" for the same. Without ports they are addresses.
	Local  string `json:"local,omitempty"`
	Remote string `json:"remote,omitempty"`
	NAT    string `json:"nat,omitempty"`
	// RemoteName is the name for which the app got the remote address from a DNS server last, "" if that was not observed.
	RemoteName string `json:"remoteName,omitempty"`
	// Rule is the access rule of the adapter that allows the flow or denies the packet, BuiltIn the built-in decision if
	// none does. Denied means of a flow that it was ended because the rules allow it no more.
	Rule       string `json:"rule,omitempty"`
	BuiltIn    string `json:"builtIn,omitempty"`
	Denied     bool   `json:"denied,omitempty"`
	PacketsOut uint64 `json:"packetsOut"` // sent by the app; bytes are those of IP packets
	BytesOut   uint64 `json:"bytesOut"`
	PacketsIn  uint64 `json:"packetsIn"`
	BytesIn    uint64 `json:"bytesIn"`
	// Start is absent of a flow that began before its network had a flow log.
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
	Lost  uint64    `json:"lost,omitempty"` // of FlowsLost
}

// FlowLogQuery selects lines of the flow log: those of an app or adapter ("app/<uuid>", "adapter/<app>/<index>") or a
// network ("ni/<uuid>"), "" for all; of these the Last stored ones (0 for all), and with Follow new ones. Lines that
// say how many are missing are always selected.
type FlowLogQuery struct {
	Of     string
	Denied bool // only denied ones
	Last   int
	Follow bool
}

// Selects reports whether a query selects a line.
func (q FlowLogQuery) Selects(r FlowRecord) bool {
	if r.Kind == FlowsLost {
		return true
	}
	if q.Denied && !r.Denied {
		return false
	}
	kind, id, _ := strings.Cut(strings.ToLower(q.Of), "/")
	switch kind {
	case "":
		return true
	case "app":
		return strings.HasPrefix(r.Adapter+"/", "adapter/"+id+"/")
	case "adapter":
		return r.Adapter == "adapter/"+id
	}
	return r.Network == "ni/"+id
}

func (a *api) flowLog(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	q := FlowLogQuery{Of: v.Get("of"), Denied: v.Get("denied") == "1", Follow: v.Get("follow") == "1"}
	if last := v.Get("last"); last != "" {
		n, err := strconv.Atoi(last)
		if err != nil || n < 0 || n > MaxFlowLines {
			answerProblem(w, rest.Refuse(rest.TypeBadRequest, "last: invalid value %q: must be 0 to %d", last, MaxFlowLines))
			return
		}
		q.Last = n
	}
	kind, _, _ := strings.Cut(q.Of, "/")
	if kind != "" && kind != "app" && kind != "adapter" && kind != "ni" {
		answerProblem(w, rest.Refuse(rest.TypeBadRequest, "of: invalid value %q: must be ni, app or adapter with an id",
			q.Of))
		return
	}
	of, err := identified(r.Context(), a.backend, q.Of)
	if err != nil {
		answerError(w, err)
		return
	}
	q.Of = of
	stream(w, r, func(ctx context.Context, emit func(FlowRecord) error) error { return a.backend.FlowLog(ctx, q, emit) })
}

// ProtocolName is a protocol as users know it: tcp, udp, icmp (also that of IPv6), or its IANA number.
func ProtocolName(number uint8) string {
	switch number {
	case 1, 58:
		return "icmp"
	case 6:
		return "tcp"
	case 17:
		return "udp"
	}
	return strconv.Itoa(int(number))
}

// FlowLog emits lines of the flow log.
func (c *Client) FlowLog(ctx context.Context, q FlowLogQuery, emit func(FlowRecord) error) error {
	v := url.Values{"of": {q.Of}, "last": {strconv.Itoa(q.Last)}}
	if q.Denied {
		v.Set("denied", "1")
	}
	if q.Follow {
		v.Set("follow", "1")
	}
	return readLines(ctx, c, "/v1/flows", v, q.Follow, emit)
}
