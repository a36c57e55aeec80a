package node

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
	"edgespan/pubsub"
)

// How often the status of a tunnel is asked for, and how long an answer may take.
const (
	pollEvery   = 2 * time.Second
	pollTimeout = 2 * time.Second
)

type (
	// tunnelReady announces a poller that has just started and polls nothing yet.
	tunnelReady struct{ pid *actor.PID }
	// pollTunnel tells a poller whether there is a tunnel to poll.
	pollTunnel struct{ on bool }
	pollDue    struct{}
	// tunnelPolled is the result of a poll.
	tunnelPolled struct {
		status netstate.TunnelStatus
		err    error
	}
)

// poller is the leaf that asks the tunnel of a network for its status. A process that hangs holds up nothing else.
type poller struct {
	d      *deps
	owner  netstate.Owner
	on     bool
	timers timers
}

func (p *poller) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		c.Send(c.Parent(), tunnelReady{c.Self()})
	case *actor.Stopping, *actor.Restarting:
		p.timers.stop()
	case pollTunnel:
		if p.timers.stop(); msg.on {
			p.poll(c)
		}
	case pollDue:
		p.poll(c)
	}
}

func (p *poller) poll(c actor.Context) {
	ctx, cancel := context.WithTimeout(p.d.ctx, pollTimeout)
	defer cancel()
	s, err := p.d.host.TunnelStatus(ctx, p.owner)
	c.Send(c.Parent(), tunnelPolled{s, err})
	p.timers.after(c, pollEvery, func() any { return pollDue{} })
}

// bridgeTunnel is what a bridge manager has of its network's tunnel.
type bridgeTunnel struct {
	on     bool // the config has one
	poller *actor.PID
	last   netstate.TunnelStatus
	heard  manager.Silence
	told   probe.Heard // as passed to the chooser
	pub    *pubsub.Publisher[netstate.TunnelStatus]
}

// followTunnel polls the tunnel while the config has one.
func (b *bridge) followTunnel(c actor.Context, config netinst.NetworkInstanceConfig) {
	t := &b.tunnel
	if t.on = config.HasTunnel(); t.on && t.poller == nil {
		t.poller = spawn(c, b.d.props(func() actor.Actor { return &poller{d: b.d, owner: b.owner} }), "tunnel")
		return // it announces itself
	}
	if t.poller != nil {
		c.Send(t.poller, pollTunnel{t.on})
	}
	if !t.on && t.last.Kind != "" {
		b.tunnelPolled(c, tunnelPolled{})
	}
}

// tunnelPolled publishes a status of the tunnel, and passes it to the manager. One that can't be read leaves the last
// one, with the reason.
func (b *bridge) tunnelPolled(c actor.Context, msg tunnelPolled) {
	t, s := &b.tunnel, msg.status
	if !t.on { // a poll that was under way
		s, msg.err = netstate.TunnelStatus{}, nil
	}
	if msg.err != nil {
		s = t.last
		s.Error = "its state is not known: " + msg.err.Error()
	}
	for _, text := range manager.TunnelEvents(t.last, s) {
		b.log.Info("tunnel", zap.String("is", text))
		b.d.recordEvent(event(nodeapi.EventTunnel, "ni/"+b.key, b.name, text))
	}
	t.last = s
	if s.Kind == "" {
		must(t.pub.Unpublish("", b.key))
	} else {
		must(t.pub.Publish("", b.key, s))
	}
	b.step(c, manager.TunnelSeen{Status: s})
	b.tellHeard(c, probe.Heard(t.heard.See(b.prober.config, s, b.d.now())))
}

// tellHeard tells the chooser what is heard of the tunnel, if it does not know: of answers by one port, the first is
// enough.
func (b *bridge) tellHeard(c actor.Context, h probe.Heard) {
	same := h
	if same.Answered = b.tunnel.told.Answered; same == b.tunnel.told && (same.Answered || !h.Answered) {
		return
	}
	b.tunnel.told = h
	b.choose(c, probe.TunnelSeen{Heard: h, At: b.d.now()})
	b.sendPorts(c)
}
