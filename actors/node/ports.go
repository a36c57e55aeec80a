package node

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/actors/node/api"
	"edgespan/actors/node/cores"
	"edgespan/netinst"
	"edgespan/netinst/addressing"
	"edgespan/netinst/dhcpclient"
	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
	"edgespan/pubsub"
	"edgespan/pubsub/tape"
)

// ports sets the addresses and default routes of ports that the config does not leave to other programs. It owns no
// logic: netinst/addressing decides what they are and when they are applied, and its child writes them to the host.
type ports struct {
	d       *deps
	m       addressing.Machine
	reel    *tape.Reel
	want    netstate.State // of the last apply
	ledger  manager.Ledger
	applier *actor.PID
	clients map[string]*actor.PID // of ports with addressing dhcp, by label, until they have ended
	configs []netinst.PortConfig  // as last published as a whole
	valid   bool
	timers  timers

	subs    subscriptions
	source  *pubsub.Subscription[api.Source]
	status  *pubsub.Subscription[netinst.PortStatus]
	last    manager.ApplyReport
	faults  map[string]manager.FailedOp // of DHCP clients, by label
	trouble *pubsub.Publisher[api.Trouble]
	leases  *pubsub.Publisher[dhcpclient.Lease]
}

func (p *ports) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		p.started(c)
	case *actor.Stopping, *actor.Restarting:
		p.valid = false // its clients end now, and must not be started again
		p.timers.stop()
		p.subs.close()
	case wake:
		p.drain(c)
	case applierReady:
		p.step(c, addressing.ApplierReady{})
	case applyResult:
		p.applied(c, msg)
	case leaseChanged:
		p.setLease(c, msg)
	case leaseFault:
		p.setFault(msg)
	case clientDone:
		c.Stop(msg.pid)
	case *actor.Terminated:
		p.clientEnded(c, msg.Who)
	case addressing.Due:
		p.step(c, msg)
	}
}

func (p *ports) started(c actor.Context) {
	t := p.d.topics
	p.reel = p.d.tape.Reel(cores.Addressing, "")
	p.trouble, p.leases = t.Trouble.Publisher(api.OwnerPorts), t.PortLeases.Publisher(api.OwnerPorts)
	p.clients, p.faults = map[string]*actor.PID{}, map[string]manager.FailedOp{}
	machine, booted := p.d.booted()
	for label, lease := range t.PortLeases.List("") {
		p.leases.Adopt("", label)
		must(p.leases.Publish("", label, lease.Dated(machine, booted)))
	}
	p.subs = subscriptions{wake: waker(c)}
	p.source = subscribe(&p.subs, t.Source, pubsub.Selector{})
	p.status = subscribe(&p.subs, t.PortStatus, pubsub.Selector{})
	p.applier = spawn(c, p.d.props(func() actor.Actor {
		return &applier{d: p.d, owner: netstate.Owner{Name: netstate.PortsOwner, Number: netstate.PortsNumber}}
	}), "applier")
}

// drain reads the topics. The source is published after the ports of its config: until then only some of them may be
// known, and the default route might be removed before its successor is added.
func (p *ports) drain(c actor.Context) {
	touched, sources := len(p.status.Drain()) > 0, p.source.Drain()
	if len(sources) > 0 {
		s, _ := p.d.topics.Source.Get("", "node")
		p.configs, p.valid = slices.Collect(maps.Values(p.d.topics.PortConfig.List(""))), s.Valid
		p.configured(c)
		p.followPorts(c)
	}
	if touched {
		p.step(c, addressing.HostChanged{})
	}
}

func (p *ports) configured(c actor.Context) {
	leases := p.d.topics.PortLeases.List("")
	p.step(c, addressing.Configured{Ports: p.configs, Leases: leases, Valid: p.valid})
}

// followPorts starts a DHCP client for each port that needs one, and ends those that are no longer needed. Leases
// without a client are those of a config that changed while the daemon was not running.
func (p *ports) followPorts(c actor.Context) {
	if !p.valid {
		return
	}
	desired := addressing.DHCPPorts(p.configs)
	for label, pid := range p.clients {
		if desired[label] == "" || pid.Id != clientID(c, label, desired[label]) {
			c.Send(pid, releaseLease{})
		}
	}
	for label := range p.d.topics.PortLeases.List("") {
		if desired[label] == "" && p.clients[label] == nil {
			must(p.leases.Unpublish("", label))
		}
	}
	for label, ifName := range desired {
		if p.clients[label] == nil {
			p.clients[label] = spawn(c, p.d.props(func() actor.Actor {
				return &dhcpPort{d: p.d, label: label, ifName: ifName}
			}), clientName(label, ifName))
		}
	}
}

func clientName(label, ifName string) string { return "dhcp/" + label + "/" + ifName }

func clientID(c actor.Context, label, ifName string) string {
	return c.Self().Id + "/" + clientName(label, ifName)
}

// setLease journals a lease and applies it.
func (p *ports) setLease(c actor.Context, msg leaseChanged) {
	_, held := p.d.topics.PortLeases.Get("", msg.label)
	switch {
	case msg.lease != nil:
		lease := *msg.lease
		lease.Machine, lease.Booted = p.d.booted()
		must(p.leases.Publish("", msg.label, lease))
	case held:
		must(p.leases.Unpublish("", msg.label))
	}
	p.configured(c)
}

// clientEnded forgets a client. Its port may need another one by now.
func (p *ports) clientEnded(c actor.Context, pid *actor.PID) {
	for label, client := range p.clients {
		if client.Id == pid.Id {
			delete(p.clients, label)
			p.setFault(leaseFault{label, ""})
			p.followPorts(c)
			return
		}
	}
}

// applied passes the result of an apply to the machine, and publishes what is wrong with it and when it is retried.
func (p *ports) applied(c actor.Context, msg applyResult) {
	retry := p.step(c, addressing.Applied{Seq: msg.seq.N, Changed: len(msg.done) > 0, Failed: firstFailure(msg) != ""})
	a := p.ledger.Record(p.want,
		manager.ApplyOutcome{Failures: msg.failures, Err: msg.err, Done: msg.done, At: p.d.now(), Retry: retry,
			Adapter: addressing.Labels(p.configs, p.want)})
	a.Seq = p.d.seqOf(msg)
	p.d.logApplyReport(netstate.PortsOwner, "", a)
	p.last = a
	p.publishTrouble()
}

// setFault keeps why a DHCP client has no lease.
func (p *ports) setFault(msg leaseFault) {
	delete(p.faults, msg.label)
	if msg.text != "" {
		p.faults[msg.label] = manager.FailedOp{Op: "lease an address by DHCP", Error: msg.text, Adapter: msg.label,
			Waiting: true, Since: p.d.now()}
	}
	p.publishTrouble()
}

// publishTrouble publishes what fails of the last apply and of the DHCP clients.
func (p *ports) publishTrouble() {
	t := api.Trouble{Failing: slices.Clone(p.last.Failing), Retry: p.last.Retry}
	for _, label := range slices.Sorted(maps.Keys(p.faults)) {
		t.Failing = append(t.Failing, p.faults[label])
	}
	must(p.trouble.Publish("", netstate.PortsOwner, t))
}

// step carries out the effects of the machine, and returns after which time the apply is retried, 0 for at once or
// never.
func (p *ports) step(c actor.Context, e addressing.Event) (retry time.Duration) {
	for _, eff := range tape.Step(p.reel, &p.m, e) {
		p.d.census.Effect(c.Self().Id, eff)
		switch e := eff.(type) {
		case addressing.Apply:
			p.want = e.Want
			c.Send(p.applier, applyRequest{seq: manager.ApplySeq{N: e.Seq}, want: e.Want, full: true})
		case addressing.Wait:
			retry = e.After
			p.timers.after(c, p.d.wait(e.After, e.Shared), func() any { return addressing.Due{Token: e.Token} })
		}
	}
	return retry
}
