package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edgespan/actors/agent"
	core "edgespan/config"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/nodeconf"
	"edgespan/config/stateloop/nodestate"
)

// applyDeadline limits the time to check and store a document.
const applyDeadline = 30 * time.Second

// Apply makes a document the running config. It returns once the document is valid and stored; a refusal is a
// *rest.Rejected.
func (n *Node) Apply(ctx context.Context, doc []byte, how nodeapi.ApplyOptions) ([]string, error) {
	document, cfg, err := nodeconf.Read(doc)
	if err != nil {
		return nil, rejected(err)
	}
	if faults := n.d.clashes(cfg); len(faults) > 0 {
		return nil, rejected(faults)
	}
	ctx, cancel := context.WithTimeout(ctx, applyDeadline)
	defer cancel()
	a, err := n.d.agent.Apply(ctx,
		agent.Request{Document: document, Verdict: nodestate.Accepted(cfg), Local: how.Local, By: how.By,
			Confirm: how.Confirm})
	return a.Warnings, rejected(err)
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
