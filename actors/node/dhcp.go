package node

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/node/cores"
	"edgespan/netinst"
	"edgespan/netinst/dhcpclient"
	"edgespan/netinst/netstate"
	"edgespan/pubsub"
	"edgespan/pubsub/tape"
)

// dhcpReopen is the time between two attempts to open a port's socket.
const dhcpReopen = time.Second

type (
	// leaseChanged reports a port's lease to the ports actor; nil: it has none.
	leaseChanged struct {
		label string
		lease *dhcpclient.Lease
	}
	// leaseFault reports why a port has no lease, "" for nothing.
	leaseFault struct{ label, text string }
	// releaseLease asks a client to give its lease back; it then answers with clientDone.
	releaseLease struct{}
	clientDone   struct{ pid *actor.PID }

	// dhcpReply and socketEnded carry the number of the socket: events of an older one don't count.
	dhcpReply struct {
		socket uint64
		reply  netstate.DHCPReply
	}
	socketEnded struct {
		socket uint64
		err    error
	}
	reopenDue struct{}
)

// dhcpPort is the DHCP client of one port. It owns no logic: netinst/dhcpclient decides. Opening a socket blocks
// shortly, so it is a leaf.
type dhcpPort struct {
	d      *deps
	label  string
	ifName string
	client *dhcpclient.Client
	reel   *tape.Reel
	timers timers

	subs   subscriptions
	status *pubsub.Subscription[netinst.PortStatus]
	socket uint64 // counts sockets
	send   func(netstate.DHCPQuery) error
	cancel context.CancelFunc
	rests  bool // no socket is opened before reopenDue
	// unopened is why no socket could be opened, "" if one was.
	unopened string
	fault    string // as last reported
}

func (p *dhcpPort) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		p.started(c)
	case *actor.Stopping, *actor.Restarting:
		p.timers.stop()
		p.subs.close()
		p.close()
	case wake:
		p.status.Drain()
		p.follow(c)
	case reopenDue:
		p.rests = false
		p.follow(c)
	case dhcpReply:
		if msg.socket == p.socket && p.send != nil {
			p.step(c, dhcpclient.Received{Reply: msg.reply})
		}
	case socketEnded:
		if msg.socket == p.socket && p.send != nil {
			p.d.of(logPorts).Info("DHCP socket ended", zap.String("port", p.label), zap.Error(msg.err))
			p.close()
			p.step(c, dhcpclient.LinkChanged{})
			p.rest(c)
		}
	case dhcpclient.Due:
		p.step(c, msg)
	case dhcpclient.Checked:
		p.step(c, msg)
	case releaseLease:
		p.step(c, dhcpclient.Released{})
		c.Send(c.Parent(), clientDone{c.Self()})
	}
}

func (p *dhcpPort) started(c actor.Context) {
	t := p.d.topics
	var lease *dhcpclient.Lease
	if l, held := t.PortLeases.Get("", p.label); held {
		lease = &l
	}
	p.client, p.reel = dhcpclient.New(p.ifName, lease), p.d.tape.Reel(cores.DHCP, p.label)
	p.subs = subscriptions{wake: waker(c)}
	p.status = subscribe(&p.subs, t.PortStatus, pubsub.Selector{Key: p.label})
	p.follow(c)
}

// follow opens the socket once the interface has carrier, closes it with the interface, and reports the carrier to the
// client.
func (p *dhcpPort) follow(c actor.Context) {
	s, _ := p.d.topics.PortStatus.Get("", p.label)
	exists := s.Exists && string(s.IfName) == p.ifName
	switch {
	case !exists:
		p.close()
		p.unopened = ""
	case s.Up && p.send == nil && !p.rests:
		p.open(c)
	}
	p.step(c, dhcpclient.LinkChanged{Up: exists && s.Up && p.send != nil})
}

func (p *dhcpPort) open(c actor.Context) {
	ctx, cancel := context.WithCancel(p.d.ctx)
	p.socket++
	self, root, socket := c.Self(), c.ActorSystem().Root, p.socket
	send, err := p.d.host.DHCP(ctx, p.ifName,
		func(r netstate.DHCPReply) { root.Send(self, dhcpReply{socket, r}) },
		func(err error) { root.Send(self, socketEnded{socket, err}) })
	if err != nil {
		cancel()
		if p.unopened != err.Error() {
			p.d.of(logPorts).Warn("open DHCP socket", zap.String("port", p.label), zap.Error(err))
		}
		p.unopened = err.Error()
		p.rest(c)
		return
	}
	p.send, p.cancel, p.unopened = send, cancel, ""
}

// rest delays the next socket, however often the interface changes meanwhile.
func (p *dhcpPort) rest(c actor.Context) {
	if !p.rests {
		p.rests = true
		p.timers.after(c, dhcpReopen, func() any { return reopenDue{} })
	}
}

func (p *dhcpPort) close() {
	if p.cancel != nil {
		p.cancel()
	}
	p.send, p.cancel = nil, nil
}

// step carries out the effects of the client.
func (p *dhcpPort) step(c actor.Context, what dhcpclient.What) {
	e := dhcpclient.Event{At: p.d.now(), Random: rand.Uint32(), What: what}
	for _, eff := range tape.Step(p.reel, p.client, e) {
		p.d.census.Effect(c.Self().Id, eff)
		switch e := eff.(type) {
		case dhcpclient.Send:
			if p.send == nil {
				continue
			}
			if err := p.send(e.Query); err != nil { // sent again later, like one that was lost
				p.d.of(logPorts).Debug("DHCP", zap.String("port", p.label), zap.Error(err))
			}
		case dhcpclient.Check:
			self, root := c.Self(), c.ActorSystem().Root
			p.d.host.InUse(p.d.ctx, p.ifName, e.Address, func(who string) {
				root.Send(self, dhcpclient.Checked{Address: e.Address, InUse: who})
			})
		case dhcpclient.Wait:
			p.timers.after(c, e.After, func() any { return dhcpclient.Due{Token: e.Token} })
		case dhcpclient.SetLease:
			c.Send(c.Parent(), leaseChanged{p.label, e.Lease})
		case dhcpclient.Note:
			p.d.of(logPorts).Info("DHCP", zap.String("port", p.label), zap.String("what", e.Text))
		}
	}
	if fault := cmp.Or(p.unopened, p.client.Fault()); fault != p.fault {
		p.fault = fault
		c.Send(c.Parent(), leaseFault{p.label, fault})
	}
}
