package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"edgespan/actors/agent"
	"edgespan/actors/node/api"
	core "edgespan/config"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/nodeconf"
	"edgespan/config/stateloop/nodestate"
	"edgespan/netinst"
	"edgespan/netinst/verdict"
	"edgespan/pubsub/trace"
)

// applyDeadline limits the time to check and store a document.
const applyDeadline = 30 * time.Second

// Apply makes a document the running config. It returns once the document is valid and stored; a refusal is a
// *rest.Rejected.
func (n *Node) Apply(ctx context.Context, doc []byte, how nodeapi.ApplyOptions) ([]string, error) {
	span := n.d.tracer.Start(trace.Context{}, "local.apply", trace.Server)
	defer span.End()
	check := n.d.tracer.Below(span.Context(), "node.validate", trace.Internal)
	document, cfg, err := nodeconf.Read(doc)
	if err == nil {
		if faults := n.d.clashes(cfg); len(faults) > 0 {
			err = faults
		}
	}
	check.FailIf(err)
	check.End()
	span.FailIf(err)
	if err != nil {
		return nil, rejected(err)
	}
	ctx, cancel := context.WithTimeout(ctx, applyDeadline)
	defer cancel()
	a, err := n.d.agent.Apply(trace.With(ctx, span.Context()),
		agent.Request{Document: document, Verdict: nodestate.AcceptedVerdict(cfg), Local: how.Local, By: how.By,
			Caller:  how.Caller,
			Confirm: how.Confirm})
	span.FailIf(err)
	return a.Warnings, rejected(err)
}

// Enforce removes observe from the adapters of an app in the node's config, or from one of them, and applies that
// config. A node that takes its config from a controller is refused: its next push would bring observe back.
func (n *Node) Enforce(ctx context.Context, app, index string, how nodeapi.EnforceOptions) (nodeapi.Enforced, error) {
	s, err := n.d.agent.Status(ctx)
	if err != nil {
		return nodeapi.Enforced{}, err
	}
	out := nodeapi.Enforced{Config: s.Desired.Generation.String(), Adapters: []string{}}
	if how.Replaces != "" && how.Replaces != out.Config {
		return nodeapi.Enforced{}, fmt.Errorf("enforce app %s: %w: the node's config is %s, not %s: try again", app,
			rest.ErrConflict, out.Config, how.Replaces)
	}
	id, _ := uuid.Parse(app)
	before, err := nodeconf.Parse(s.Document)
	if err != nil {
		return nodeapi.Enforced{}, rejected(err)
	}
	if i, err := strconv.Atoi(index); index != "" {
		if _, known := before.Apps[id].Adapters[i]; !known || err != nil {
			return nodeapi.Enforced{}, fmt.Errorf("enforce adapter %s/%s: %w: not in the config", app, index, rest.ErrNotFound)
		}
	} else if _, known := before.Apps[id]; !known {
		return nodeapi.Enforced{}, fmt.Errorf("enforce app %s: %w: not in the config", app, rest.ErrNotFound)
	}
	document, paths := nodeconf.Enforce(s.Document, id, index)
	if len(paths) == 0 {
		return out, nil
	}
	for _, path := range paths {
		parts, _ := core.ParsePath(path)
		out.Adapters = append(out.Adapters, strings.ToLower(parts[1])+"/"+parts[3])
	}
	cfg, err := nodeconf.Parse(document)
	if err != nil {
		return nodeapi.Enforced{}, rejected(err)
	}
	out.Flows = n.flowChanges(cfg)
	if how.DryRun {
		return out, nil
	}
	if err := elsewhere(s, paths); err != nil {
		return nodeapi.Enforced{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, applyDeadline)
	defer cancel()
	a, err := n.d.agent.Apply(ctx, agent.Request{Document: document, Verdict: nodestate.AcceptedVerdict(cfg), By: how.By,
		Caller: how.Caller, Confirm: how.Confirm, Replaces: s.Desired.Generation})
	if out.Warnings = a.Warnings; s.FileDigest != "" && err == nil {
		out.Warnings = append(out.Warnings, "the config file still has observe: remove it there too, at "+
			strings.Join(paths, ", ")+"; the file replaces this config when it next changes")
	}
	return out, rejected(err)
}

// elsewhere refuses a change of a config that the node has from its controller, and says where to make it.
func elsewhere(s agent.Status, paths []string) error {
	if s.Managed == nil || !*s.Managed || s.Held != nil {
		return nil
	}
	values := strings.Join(paths, "=false ") + "=false"
	return fmt.Errorf("%w: the node is managed by its controller %s, which sets observe: run there 'edgespan node modify "+
		"%s %s', or change the layer that sets it", rest.ErrConflict, s.Controller, s.Name, values)
}

// Confirm makes the pending config the confirmed one.
func (n *Node) Confirm(ctx context.Context) error { return n.d.agent.Confirm(ctx, core.Generation{}) }

// Rollback undoes the pending config.
func (n *Node) Rollback(ctx context.Context) error { return n.d.agent.Rollback(ctx) }

// Release ends a local hold.
func (n *Node) Release(ctx context.Context) (held bool, err error) { return n.d.agent.Release(ctx) }

// pending describes the config that waits for confirmation, and who controls the node.
func (n *Node) pending(ctx context.Context) (nodeapi.Pending, error) {
	s, err := n.d.agent.Status(ctx)
	if err != nil {
		return nodeapi.Pending{}, err
	}
	p := nodeapi.Pending{
		Pending: s.State.Pending, Source: string(s.Source), Generation: s.Desired.Generation.String(), MD5: s.Desired.MD5,
		InForce: s.Echo.Generation.String(), Restores: s.Restores.String(), Fallback: s.Fallback, Undoing: s.Undoing,
		Remaining: s.Remaining.Round(time.Second).String(), Settled: s.Settled, Worse: s.Bad,
		Controller: s.Controller, Linked: s.Linked, Managed: s.Managed != nil && *s.Managed,
	}
	for _, r := range s.Results {
		p.Actions = append(p.Actions, r.String())
	}
	if u := s.Undone; u != nil {
		p.Undone = fmt.Sprintf("%s: %s: %s", u.Generation, u.Reason, u.Why)
	}
	if s.Held != nil {
		p.Held = fmt.Sprintf("held locally by %s since %s", s.Held.By, s.Held.Since.Format(time.RFC3339))
	}
	return p, nil
}

// rejected turns the faults of a document into a refusal.
func rejected(err error) error {
	var faults core.Faults
	if !errors.As(err, &faults) {
		return err
	}
	return &rest.Rejected{Faults: faults.Lines()}
}

// ExplainFlow says what becomes of the first packet of a flow under the current config.
func (n *Node) ExplainFlow(_ context.Context, q nodeapi.FlowQuery) (nodeapi.FlowVerdict, error) {
	app, index, _ := nodeapi.SplitAdapter(strings.ToLower(q.Adapter))
	key, err := netinst.ParseAdapterKey(app + "#" + index)
	cfg := n.d.currentConfig()
	c := cfg.Apps[key.AppUUID]
	if _, known := c.Adapters[key.Index]; err != nil || !known {
		return nodeapi.FlowVerdict{}, fmt.Errorf("explain adapter %s: %w: not in the config", q.Adapter, rest.ErrNotFound)
	}
	proto, err := q.Number()
	if err != nil {
		return nodeapi.FlowVerdict{}, err
	}
	query := verdict.Query{Adapter: key, Remote: q.Remote, Incoming: q.Incoming, Port: q.In, Proto: proto}
	if query.DstPort = q.Port; q.Port != 0 {
		query.SrcPort = max(q.SourcePort, 1)
		if q.SourcePort == 0 {
			query.SrcPort = nodeapi.DefaultSourcePort
		}
	}
	world := n.d.world(cfg)
	packets, err := world.Packets(query)
	if err != nil {
		return nodeapi.FlowVerdict{}, fmt.Errorf("explain adapter %s: %w: %w", q.Adapter, rest.ErrNotFound, err)
	}
	out := nodeapi.FlowVerdict{Adapter: api.AdapterID(app, key.Index), Name: c.DisplayName}
	for _, p := range packets {
		out.Packets = append(out.Packets, n.PacketVerdict(p, world.Evaluate(p)))
	}
	return out, nil
}
