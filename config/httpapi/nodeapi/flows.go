package nodeapi

import (
	"context"
	"net/url"
)

// FlowChange is a class of flows that a config would allow or deny, and that is denied or allowed now.
type FlowChange struct {
	Verdict string `json:"verdict"` // under the config: allow or deny
	// From and To are "adapter/<app>/<index>", "node", "port/<label>" (From), "outside" or "app" (To: an app of the
	// network that routes); the names are display names of apps.
	From     string `json:"from"`
	FromName string `json:"fromName,omitempty"`
	To       string `json:"to"`
	ToName   string `json:"toName,omitempty"`
	// Remote are the names (of rules' match.host) or the addresses of the end that is no app, as prefixes or
	// "first-last"; "anywhere" is all.
	Remote []string `json:"remote,omitempty"`
	// Mapped is the address of the node to which they are sent, of flows that a port map leads to To.
	Mapped string   `json:"mapped,omitempty"`
	Flows  []string `json:"flows"` // as "tcp 80,443", "udp 53 from 1024-65535", "icmp", "any", "other" (protocols)
}

// FlowChanges are the flows that a config would allow or deny. LeftOut counts the classes beyond MaxFlowChanges.
type FlowChanges struct {
	List       []FlowChange
	LeftOut    int
	Incomplete bool // there were too many to compare
}

// MaxFlowChanges bounds FlowChanges.List, and MaxRemotes the ranges of one of them: the last is then "and N more".
const (
	MaxFlowChanges = 100
	MaxRemotes     = 16
)

// Preview is what applying a config would change.
type Preview struct {
	Changes []Change
	Flows   FlowChanges
}

// Preview returns what Apply of doc would change, on the host and for flows.
func (c *Client) Preview(ctx context.Context, doc []byte) (Preview, error) {
	out, err := post[planned](ctx, c, "/v1/apply", url.Values{"dryRun": {"1"}}, doc)
	return Preview{out.Changes, FlowChanges{out.Flows, out.FlowsLeftOut, out.FlowsIncomplete}}, err
}
