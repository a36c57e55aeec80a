package node

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/probe"
	"edgespan/pubsub"
	"edgespan/pubsub/tape"
)

// prober is the part of a bridge manager that chooses its ports. Choosing never blocks, so it belongs to the bridge
// manager's own messages: it knows a port's end before the manager does, and both act on it at once. The probes are
// sent by probes.go.
type prober struct {
	chooser  *probe.Chooser
	reel     *tape.Reel
	outcomes *pubsub.Subscription[probe.Outcomes]
	drains   *pubsub.Subscription[probe.Drain]

	requestPub *pubsub.Publisher[probe.ID]
	choicePub  *pubsub.Publisher[map[string]probe.Choice]
	recordPub  *pubsub.Publisher[probe.Record]

	config  netinst.NetworkInstanceConfig
	seen    []probe.Port    // as last passed to the chooser
	needed  map[string]bool // keys of the topic
	found   netinst.Uplinks
	drained map[string]time.Time

	sent netinst.Uplinks // as last sent to the manager
}

// isSent reports whether the manager knows the choice.
func (p *prober) isSent() bool { return reflect.DeepEqual(p.sent, p.found) }

// chooserDue is the timer of a chooser.
type chooserDue struct{ token uint64 }

func newProber(s *subscriptions, t *api.Topics, key string) prober {
	name := "ni/" + key
	record, _ := t.UplinkRecords.Get("", key)
	p := prober{
		chooser:  probe.New(record),
		outcomes: subscribe(s, t.ProbeOutcomes, pubsub.Selector{}),
		drains:   subscribe(s, t.Drains, pubsub.Selector{}),

		requestPub: t.ProbeRequest.Publisher(name), choicePub: t.Uplinks.Publisher(name),
		recordPub: t.UplinkRecords.Publisher(name),
		needed:    map[string]bool{}, drained: map[string]time.Time{},
	}
	p.choicePub.Adopt("", key)
	p.recordPub.Adopt("", key)
	for _, ref := range p.requestPub.AdoptAll(key) { // of an earlier incarnation
		p.needed[ref.Key] = true
	}
	return p
}

// setUplinkConfig passes the network's config to the chooser, and returns the choice that the manager must get with the
// config: its first apply must not take a port that does not work.
func (b *bridge) setUplinkConfig(c actor.Context, config netinst.NetworkInstanceConfig) netinst.Uplinks {
	p := &b.prober
	p.config = config
	if p.seen != nil {
		p.seen = netinst.ProbePorts(config, slices.Collect(maps.Values(b.portStatuses)))
	}
	b.choose(c, probe.Configured{Config: config.Probe, Selectors: netinst.Selectors(config), Ports: p.seen,
		Tunnel: config.HasVPN(), At: b.d.now()})
	p.sent = p.found
	return p.found
}

// seePorts passes the node's ports to the chooser, before the manager gets them.
func (b *bridge) seePorts(c actor.Context) {
	ports := netinst.ProbePorts(b.prober.config, slices.Collect(maps.Values(b.portStatuses)))
	if b.prober.seen == nil || !reflect.DeepEqual(ports, b.prober.seen) {
		b.prober.seen = ports
		b.choose(c, probe.PortsSeen{Ports: ports, At: b.d.now()})
	}
}

// drainProbes passes outcomes of probes and drains of ports to the chooser, and reports whether there were some that
// concern it.
func (b *bridge) drainProbes(c actor.Context) (some bool) {
	for _, ch := range b.prober.outcomes.Drain() {
		if b.prober.needed[ch.Key] && (ch.Kind == pubsub.Created || ch.Kind == pubsub.Modified) {
			b.choose(c, probe.OutcomesSeen{Outcomes: ch.New, At: b.d.now()})
			some = true
		}
	}
	changed := false
	for _, ch := range b.prober.drains.Drain() {
		switch ch.Kind {
		case pubsub.Created, pubsub.Modified:
			b.prober.drained[ch.Key], changed = ch.New.Until, true
		case pubsub.Deleted:
			delete(b.prober.drained, ch.Key)
			changed = true
		}
	}
	if changed {
		b.choose(c, probe.Drained{Ports: b.prober.drained, At: b.d.now()})
	}
	return some || changed
}

// choose steps the chooser and carries out its effects. The manager hears of a move with the ports (sendPorts).
func (b *bridge) choose(c actor.Context, e probe.Event) {
	p := &b.prober
	for _, eff := range b.withKnown(tape.Step(p.reel, p.chooser, e)) {
		b.d.census.Effect(c.Self().Id, eff)
		switch e := eff.(type) {
		case probe.Watch:
			must(b.watchProbes(e.IDs))
		case probe.Choose:
			must(p.choicePub.Publish("", b.key, e.Choices))
			b.moved(e.Choices)
		case probe.Journal:
			must(p.recordPub.Publish("", b.key, e.Record))
		case probe.Timer:
			b.timers.after(c, e.After, func() any { return chooserDue{e.Token} })
		}
	}
}

// withKnown tells the chooser the outcomes of the probes that it begins to watch, which other networks or an earlier
// incarnation needed, and returns the effects of that, too: it would use a dead port until the next outcome otherwise.
// Only the last decision counts.
func (b *bridge) withKnown(effects []probe.Effect) []probe.Effect {
	i := slices.IndexFunc(effects, func(e probe.Effect) bool { _, is := e.(probe.Watch); return is })
	if i < 0 {
		return effects
	}
	for _, id := range effects[i].(probe.Watch).IDs {
		if o, ok := b.d.topics.ProbeOutcomes.Get("", id.String()); ok {
			var e probe.Event = probe.OutcomesSeen{Outcomes: o, At: b.d.now()}
			effects = append(effects, tape.Step(b.prober.reel, b.prober.chooser, e)...)
		}
	}
	decided := false
	for i, e := range slices.Backward(effects) {
		if _, is := e.(probe.Choose); is && decided {
			effects = slices.Delete(effects, i, i+1)
		} else if is {
			decided = true
		}
	}
	return effects
}

// watchProbes publishes the probes that the network needs now.
func (b *bridge) watchProbes(ids []probe.ID) error {
	p := &b.prober
	now := map[string]bool{}
	for _, id := range ids {
		now[id.String()] = true
		if err := p.requestPub.Publish(b.key, id.String(), id); err != nil {
			return err
		}
	}
	for key := range p.needed {
		if !now[key] {
			if err := p.requestPub.Unpublish(b.key, key); err != nil {
				return err
			}
		}
	}
	p.needed = now
	return nil
}

// moved records which ports are chosen now.
func (b *bridge) moved(choices map[string]probe.Choice) {
	before := b.prober.found.Chosen
	b.prober.found = netinst.UplinksOf(choices)
	for selector, choice := range choices {
		if was, known := before[selector]; known && was != choice.Port {
			b.tunnel.told.Answered = false // by this one
			family := ""
			if probe.IsOfIPv6(selector) {
				family = "IPv6: "
			}
			b.d.of(logProbe).With(zap.String("ni", b.key)).Info("uplink: " + family + choice.Why)
			b.d.work.Switched(b.key)
			b.d.recordEvent(event(nodeapi.EventUplink, "ni/"+b.key, b.name,
				family+was+" -> "+choice.Port+": "+choice.Why))
		}
	}
}

// withdrawUplinks withdraws what was published about a network that is gone.
func (b *bridge) withdrawUplinks() error {
	b.d.work.ForgetNetwork(b.key)
	if err := b.watchProbes(nil); err != nil {
		return err
	}
	if err := b.prober.choicePub.Unpublish("", b.key); err != nil {
		return err
	}
	return b.prober.recordPub.Unpublish("", b.key)
}
