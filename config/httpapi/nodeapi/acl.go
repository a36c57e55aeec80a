package nodeapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"edgespan/config/httpapi/rest"
)

// FlowQuery asks what becomes of the first packet of a flow between an adapter and a remote end.
type FlowQuery struct {
	Adapter    string // "<app>/<index>", the app by UUID or display name
	Remote     string // an address, or a name that the network's DNS answers by itself
	Incoming   bool   // the remote end opens the flow
	In         string // of Incoming: the label of the port by which it arrives; "" for the port that leads to Remote
	Protocol   string // tcp, udp, icmp or a number; "": tcp with a Port, else icmp (ping)
	Port       uint16 // the destination's; 0 for none
	SourcePort uint16 // 0: DefaultSourcePort
}

// DefaultSourcePort is the first port that IANA assigns to clients (RFC 6335 §6).
const DefaultSourcePort = 49152

// FlowVerdict says what becomes of the packets that a FlowQuery is about, one for each address of its remote end.
type FlowVerdict struct {
	Adapter string          `json:"adapter"` // "<app>/<index>"
	Name    string          `json:"name"`    // the app's display name, "" for none
	Packets []PacketVerdict `json:"packets"`
}

// PacketVerdict is what becomes of one packet.
type PacketVerdict struct {
	From       string       `json:"from"` // address, "" if the adapter has none
	To         string       `json:"to"`
	Name       string       `json:"name,omitempty"` // by which the remote end is looked up
	Protocol   string       `json:"protocol"`
	SourcePort uint16       `json:"sourcePort,omitempty"`
	Port       uint16       `json:"port,omitempty"`
	In         string       `json:"in,omitempty"` // label of the port by which it arrives
	Verdict    string       `json:"verdict"`      // allow, deny or translate
	Checks     []FlowCheck  `json:"checks"`       // in order, the last one decided
	Arrives    string       `json:"arrives,omitempty"`
	Source     string       `json:"source,omitempty"` // the address with which it arrives
	NATPort    string       `json:"natPort,omitempty"`
	Route      *PacketRoute `json:"route,omitempty"`
	// Destination and DestinationPort are where a port map leads it.
	Destination     string `json:"destination,omitempty"`
	DestinationPort uint16 `json:"destinationPort,omitempty"`
}

// FlowCheck is one decision about a packet: a rule of an adapter, or a check that is built in.
type FlowCheck struct {
	Adapter   string `json:"adapter,omitempty"`   // whose rules
	Name      string `json:"name,omitempty"`      // display name of its app
	Direction string `json:"direction,omitempty"` // egress or ingress
	Rule      string `json:"rule,omitempty"`      // name in acl; "" for a built-in check
	BuiltIn   string `json:"builtIn,omitempty"`
	Text      string `json:"text,omitempty"` // explains the built-in check
	Allows    bool   `json:"allows"`
	Limit     string `json:"limit,omitempty"` // of a rule that allows packets up to a rate, as "10/s, burst 5"
	// Observed means that Rule or BuiltIn would deny it, or of a Limit what exceeds it: the adapter has observe.
	Observed bool `json:"observed,omitempty"`
	// DependsOn are earlier rules that would decide if DNS gave the remote end's address for their match.host.
	DependsOn []string `json:"dependsOn,omitempty"`
}

// PacketRoute is the way of a packet out of its network's subnet.
type PacketRoute struct {
	Name        string `json:"name,omitempty"` // of a configured route
	Destination string `json:"destination"`
	Gateway     string `json:"gateway,omitempty"` // "" on link
	Port        string `json:"port,omitempty"`    // label; "" to an app of the network
	// Shared are the labels of further ports that new flows are spread over: the answer is for Port.
	Shared []string `json:"shared,omitempty"`
}

// parseProtocol returns the number of a protocol, which is spelled as in match.protocol.
func parseProtocol(word string, ported bool) (uint8, bool) {
	switch {
	case word == "tcp" || word == "" && ported:
		return 6, true
	case word == "udp":
		return 17, true
	case word == "icmp" || word == "":
		return 1, true
	}
	n, err := strconv.ParseUint(word, 10, 8)
	return uint8(n), err == nil && n > 0
}

// Number returns the number of the query's protocol. Its error is one of usage.
func (q FlowQuery) Number() (uint8, error) {
	n, ok := parseProtocol(q.Protocol, q.Port != 0)
	switch {
	case !ok:
		return 0, fmt.Errorf("protocol: invalid value %q: must be tcp, udp, icmp or a number of 1 to 255",
			printableName(q.Protocol))
	case q.Port != 0 && n != 6 && n != 17:
		return 0, fmt.Errorf("port: not allowed with protocol %s: must be used with tcp or udp", q.Protocol)
	case q.Port == 0 && (n == 6 || n == 17):
		return 0, fmt.Errorf("port: missing: protocol %s needs the destination's port", q.Protocol)
	}
	return n, nil
}

func (a *api) explainFlow(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	q := FlowQuery{Adapter: v.Get("adapter"), Remote: v.Get("to"), In: v.Get("in"), Protocol: v.Get("protocol")}
	if q.Remote == "" {
		q.Remote, q.Incoming = v.Get("from"), true
	}
	if q.Remote == "" || v.Get("to") != "" && v.Get("from") != "" || q.In != "" && !q.Incoming {
		answerProblem(w, rest.Refuse(rest.TypeBadRequest, "must have either to, or from with or without in"))
		return
	}
	for name, port := range map[string]*uint16{"port": &q.Port, "sourcePort": &q.SourcePort} {
		n, err := strconv.ParseUint(v.Get(name), 10, 16)
		if v.Get(name) != "" && (err != nil || n == 0) {
			answerProblem(w, rest.Refuse(rest.TypeBadRequest, "%s: invalid value %q: must be 1 to 65535", name,
				printableName(v.Get(name))))
			return
		}
		*port = uint16(n)
	}
	if _, err := q.Number(); err != nil {
		answerProblem(w, rest.Refuse(rest.TypeBadRequest, "%s", err))
		return
	}
	id, err := identify(r.Context(), a.backend, "adapter", q.Adapter)
	if err != nil {
		answerError(w, fmt.Errorf("explain %w", err))
		return
	}
	q.Adapter = id
	got, err := a.backend.ExplainFlow(r.Context(), q)
	answerWith(w, got, err)
}

// ExplainFlow says what becomes of the first packet of a flow.
func (c *Client) ExplainFlow(ctx context.Context, q FlowQuery) (FlowVerdict, error) {
	v := url.Values{"adapter": {q.Adapter}}
	remote := "to"
	if q.Incoming {
		remote = "from"
	}
	v.Set(remote, q.Remote)
	for name, text := range map[string]string{"in": q.In, "protocol": q.Protocol, "port": portText(q.Port),
		"sourcePort": portText(q.SourcePort)} {
		if text != "" {
			v.Set(name, text)
		}
	}
	return rest.Get[FlowVerdict](ctx, c.Client, "/v1/acl/explain", v)
}

func portText(n uint16) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(int(n))
}
