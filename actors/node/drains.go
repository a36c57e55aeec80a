package node

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/actors/node/api"
	"edgespan/config"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/probe"
)

type (
	// drainRequest asks the router to drain a port, or with end to undrain it; the router answers with drainAnswer.
	drainRequest struct {
		label string
		how   nodeapi.DrainOptions
		end   bool
	}
	drainAnswer struct {
		until time.Time
		was   bool // drained before
		err   error
	}
)

// drainDeadline limits the time to drain a port; only the journal takes time.
const drainDeadline = 10 * time.Second

// maxDrainedBy bounds the name of who drained a port, in bytes.
const maxDrainedBy = 64

// Drain keeps a port free of networks that have another one that works.
func (n *Node) Drain(ctx context.Context, label string, how nodeapi.DrainOptions) (time.Time, error) {
	a, err := n.askDrain(ctx, drainRequest{label: label, how: how})
	return a.until, err
}

// Undrain ends a drain, and reports whether there was one.
func (n *Node) Undrain(ctx context.Context, label string) (bool, error) {
	a, err := n.askDrain(ctx, drainRequest{label: label, end: true})
	return a.was, err
}

func (n *Node) askDrain(ctx context.Context, r drainRequest) (drainAnswer, error) {
	if err := ctx.Err(); err != nil {
		return drainAnswer{}, err
	}
	res, err := n.system.Root.RequestFuture(n.router, r, drainDeadline).Result()
	if err != nil {
		return drainAnswer{}, fmt.Errorf("drain port %s: %w", r.label, context.DeadlineExceeded)
	}
	a := res.(drainAnswer)
	return a, a.err
}

// drainPort answers a drainRequest.
func (r *router) drainPort(c actor.Context, msg drainRequest) {
	ports := r.d.topics.PortConfig.List("")
	before, was := r.d.topics.Drains.Get("", msg.label)
	if _, known := ports[msg.label]; !known {
		c.Respond(drainAnswer{err: api.NoPort(msg.label, ports)})
		return
	}
	if msg.end {
		if was {
			r.endDrain(msg.label, "undrained")
		}
		c.Respond(drainAnswer{was: was})
		return
	}
	d := probe.NewDrain(config.Truncate(msg.how.By, maxDrainedBy), msg.how.For, r.d.clock())
	text := "drained until it is undrained"
	if !d.Until.IsZero() {
		text = "drained until " + d.Until.UTC().Format(time.RFC3339)
	}
	if d.By != "" {
		text += ", by " + d.By
	}
	if !was || d != before {
		must(r.drains.Publish("", msg.label, d))
		r.drainEvent(msg.label, text)
	}
	c.Respond(drainAnswer{until: d.Until, was: was})
}

// endDrains ends the drains whose time is over, and those of ports that are not in the config any more: which ports
// there are is known once a valid config is published. Bridge managers honour the end of a drain by themselves, so that
// each beat of the router is soon enough; the beat also notices that the clock was set, and dates the ends anew.
func (r *router) endDrains() {
	for _, e := range r.d.topics.Drains.All() {
		_, known := r.d.topics.PortConfig.Get("", e.Key)
		switch dated, over := e.Value.At(r.d.clock()); {
		case r.valid && !known:
			r.endDrain(e.Key, "undrained: no longer a port")
		case over:
			r.endDrain(e.Key, "undrained: its time is over")
		case dated != e.Value:
			must(r.drains.Publish("", e.Key, dated))
		}
	}
}

func (r *router) endDrain(label, text string) {
	must(r.drains.Unpublish("", label))
	r.drainEvent(label, text)
}

func (r *router) drainEvent(label, text string) {
	p, _ := r.d.topics.PortConfig.Get("", label)
	r.d.recordEvent(event(nodeapi.EventUplink, "port/"+label, string(p.IfName), text))
}
