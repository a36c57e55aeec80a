package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/nodeconf"
	"edgespan/netinst/netstate"
)

// Diff reports how the host differs from the running config. It observes and changes nothing. It ignores objects for
// which no config is published.
func (n *Node) Diff(ctx context.Context, of string) ([]nodeapi.Difference, error) {
	if s, ok := n.d.topics.Source.Get("", "node"); !ok || !s.Valid {
		return nil, fmt.Errorf("compare the host: %w: no valid config published yet", rest.ErrBusy)
	}
	return observe(ctx, n, "diff", func(ctx context.Context) ([]nodeapi.Difference, error) { return n.diff(ctx, of) })
}

func (n *Node) diff(ctx context.Context, of string) ([]nodeapi.Difference, error) {
	found, err := n.d.host.Owners(ctx)
	if err != nil {
		return nil, fmt.Errorf("find edgespan's networks on the host: %w", err)
	}
	wants, owners := n.d.desiredStates(ctx, n.running(), found)
	var out []nodeapi.Difference
	known := of == ""
	for _, o := range owners {
		object := ownerObject(o)
		if of != "" && !strings.EqualFold(object, of) {
			continue
		}
		known = true
		have, err := n.d.host.Observe(ctx, o, true)
		if err != nil {
			return nil, fmt.Errorf("observe %s: %w", o.Name, err)
		}
		out = append(out, n.differences(o, netstate.Diff(netstate.Claim(have, wants[o]), wants[o]))...)
	}
	if !known {
		return nil, fmt.Errorf("compare %s: %w: neither in the config nor on the host", of, rest.ErrNotFound)
	}
	return out, nil
}

func ownerObject(o netstate.Owner) string {
	if o.Number <= 0 {
		return o.Name
	}
	return "ni/" + o.Name
}

// running returns the config as it was published.
func (n *Node) running() nodeconf.Config {
	t := n.d.topics
	return nodeconf.Config{
		Networks: byUUID(t.NetworkConfig.List("")), Apps: byUUID(t.AppConfig.List("")), Ports: t.PortConfig.List(""),
	}
}

func byUUID[V any](m map[string]V) map[uuid.UUID]V {
	out := make(map[uuid.UUID]V, len(m))
	for k, v := range m {
		if id, err := uuid.Parse(k); err == nil {
			out[id] = v
		}
	}
	return out
}

func (n *Node) differences(o netstate.Owner, plan netstate.Plan) []nodeapi.Difference {
	trouble, _ := n.d.topics.Trouble.Get("", o.Name)
	var out []nodeapi.Difference
	for _, op := range plan {
		why := ""
		for _, f := range trouble.Failing {
			if f.Op == op.String() {
				why = f.Error
			}
		}
		for _, it := range op.Items {
			d := nodeapi.Difference{
				Owner: ownerObject(o), Kind: string(op.Kind), ID: it.ID().Name, Change: nodeapi.Changed, Why: why,
				Want: objectText(it.Want), Have: objectText(it.Have),
			}
			switch {
			case it.Have == nil:
				d.Change = nodeapi.Missing
			case it.Want == nil:
				d.Change = nodeapi.Unexpected
			}
			out = append(out, d)
		}
	}
	return out
}

func objectText(o netstate.Object) string {
	if o == nil {
		return ""
	}
	return o.Text()
}
