package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/actors/agent"
	"edgespan/actors/node/api"
	"edgespan/appnet"
	core "edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/nodeside"
	"edgespan/config/nodeconf"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/config/stateloop/nodestate"
	"edgespan/config/stateloop/peer"
	"edgespan/netinst"
	"edgespan/pubsub"
)

// configHost is the node as its config actor sees it: what it publishes goes on the topics,
// and what their owners say is the node's health.
type configHost struct {
	d       *deps
	record  api.NodeRecord
	last    commitconfirm.Publish
	settled bool // all of the last one was answered
	fault   string

	networks    *pubsub.Publisher[netinst.NetworkInstanceConfig]
	apps        *pubsub.Publisher[appnet.AppNetworkConfig]
	ports       *pubsub.Publisher[netinst.PortConfig]
	networkApps *pubsub.Publisher[[]string]
	tasks       *pubsub.Publisher[nodestate.TaskConfig]
	sys         *pubsub.Publisher[nodeconf.SysParams]
	source      *pubsub.Publisher[api.Source]
	subs        subscriptions
	states      *pubsub.Subscription[netinst.PortStatus]
	swept       *pubsub.Subscription[uint64]
	reporter    reporter
}

// configProps are those of the config actor: the agent, which also answers the router's
// heartbeat.
func (d *deps) configProps() *actor.Props {
	return d.vital(d.agent.Producer, func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, e *actor.MessageEnvelope) {
			if p, is := e.Message.(ping); is {
				c.ActorSystem().Root.Send(c.Parent(), pong{"config", p.beat})
				return
			}
			next(c, e)
		}
	})
}

// Start takes the topics.
func (h *configHost) Start(wake func()) {
	t := h.d.topics
	h.networks, h.apps, h.ports = t.NetworkConfig.Publisher(api.OwnerConfig), t.AppConfig.Publisher(api.OwnerConfig),
		t.PortConfig.Publisher(api.OwnerConfig)
	h.networkApps = t.NetworkApps.Publisher(api.OwnerConfig)
	h.tasks = t.TaskConfig.Publisher(api.OwnerConfig)
	h.sys, h.source = t.SysParams.Publisher(api.OwnerConfig), t.Source.Publisher(api.OwnerConfig)
	h.record, _ = t.NodeRecord.Get("", "node")
	h.subs = subscriptions{wake: wake}
	h.reporter.start(t, &h.subs)
	h.states = subscribe(&h.subs, t.PortStatus, pubsub.Selector{})
	h.swept = subscribe(&h.subs, t.TasksSwept, pubsub.Selector{})
}

// Stop gives the subscriptions back.
func (h *configHost) Stop() { h.subs.close() }

// Trouble tells what is wrong with the source, and nothing else of it.
func (h *configHost) Trouble(text string) {
	h.fault = text
	s, _ := h.d.topics.Source.Get("", "node")
	s.Error = text
	must(h.source.Publish("", "node", s))
}

// Publish puts a config on the topics. Ports go first and networks next, so that
// who sees an app can see what it stands on; what is gone goes in the other order.
func (h *configHost) Publish(p commitconfirm.Publish) {
	t, cfg := h.d.topics, p.Config.(nodestate.Desired)
	h.last, h.settled = p, false
	tasks := nodestate.TasksOf(cfg.Peer)
	cfg.Networks = nodestate.Observed(cfg.Networks, cfg.Sys.Drift == nodeconf.DriftObserve)
	md5 := core.MD5(p.Document)
	h.record = api.NodeRecord{
		Source: string(p.Source), Generation: p.Seq, FileDigest: p.FileDigest, MD5: md5,
		Networks: nodestate.Versions(h.record.Networks, cfg.Networks, p.Seq),
		Ports:    nodestate.Versions(h.record.Ports, cfg.Ports, p.Seq),
		Tasks:    nodestate.Versions(h.record.Tasks, tasks, p.Seq),
	}
	h.d.keep(h.record)
	must(h.sys.Publish("", "node", cfg.Sys))
	h.d.setLevel(cfg.Sys.LogLevel)
	h.withdraw(cfg.Config, tasks)
	for label, p := range cfg.Ports {
		p.Generation = h.record.Ports[label].Generation
		must(h.ports.Publish("", label, p))
	}
	h.publishApps(cfg.Apps) // before the networks, which wait for what it names
	for id, n := range cfg.Networks {
		n.Generation = h.record.Networks[id.String()].Generation
		must(h.networks.Publish("", id.String(), n))
	}
	for id, a := range cfg.Apps {
		must(h.apps.Publish("", id.String(), a))
	}
	for id, x := range tasks {
		x.Generation = h.record.Tasks[id].Generation
		must(h.tasks.Publish("", id, x))
	}
	h.reporter.peers(cfg.Peer)
	s, _ := t.Source.Get("", "node")
	must(h.source.Publish("", "node", api.Source{
		Source: string(p.Source), Generation: p.Seq, MD5: md5, FileDigest: p.FileDigest, Error: h.fault, Keep: p.Keep,
		Valid: s.Valid || !p.Keep,
	}))
	h.d.log.Info("config published", zap.String("source", string(p.Source)), zap.Uint64("gen", p.Seq),
		zap.String("md5", md5),
		zap.Int("networks", len(cfg.Networks)), zap.Int("apps", len(cfg.Apps)))
}

// withdraw takes what a config has not off the topics.
func (h *configHost) withdraw(cfg nodeconf.Config, tasks map[string]nodestate.TaskConfig) {
	t := h.d.topics
	for id := range t.TaskConfig.List("") {
		if _, ok := tasks[id]; !ok {
			must(h.tasks.Unpublish("", id))
		}
	}
	apps, networks := keysOf(cfg.Apps), keysOf(cfg.Networks)
	for id := range t.AppConfig.List("") {
		if !apps[id] {
			must(h.apps.Unpublish("", id))
		}
	}
	for id := range t.NetworkConfig.List("") {
		if !networks[id] {
			must(h.networks.Unpublish("", id))
		}
	}
	for label := range t.PortConfig.List("") {
		if _, ok := cfg.Ports[label]; !ok {
			must(h.ports.Unpublish("", label))
		}
	}
}

// Drain takes what the owners of networks, apps and ports say.
func (h *configHost) Drain() {
	h.reporter.drain()
	h.states.Drain()
	h.swept.Drain()
}

// Observe says how the node is: its networks, adapters and ports.
func (h *configHost) Observe() agent.Observation {
	h.Drain()
	t := h.d.topics
	h.settled = h.settled || h.last.Config != nil && h.d.view().Answered()
	l := agent.Observation{Settled: h.settled}
	all := t.Reported.All()
	l.Parameters, l.Health = make([]nodeproto.Parameter, 0, len(all)), make([]nodeproto.Health, 0, len(all))
	for _, e := range all {
		p := e.Value
		if good, counts := p.Healthy(); counts {
			l.Health = append(l.Health, nodeproto.Health{Name: p.ID, Good: good, Detail: p.Error})
		}
		l.Parameters = append(l.Parameters, parameter(p, h.answers(p)))
	}
	if h.settled { // before it, what nobody speaks of may be there
		for _, p := range h.reporter.gone() {
			l.Parameters = append(l.Parameters, parameter(p, h.last.Generation))
		}
	}
	l.Ports = nodeside.Ports(t.PortStatus.List(""))
	for label, c := range t.PortConfig.List("") {
		s, _ := t.PortStatus.Get("", label)
		s.IfName = c.IfName // it may have no status yet
		why := s.Trouble()
		l.Health = append(l.Health, nodeproto.Health{Name: "port/" + label, Good: why == "", Detail: why})
	}
	slices.SortFunc(l.Health, func(a, b nodeproto.Health) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(l.Parameters, func(a, b nodeproto.Parameter) int { return cmp.Compare(a.ID, b.ID) })
	return l
}

func parameter(p nodestate.Parameter, answers commitconfirm.Generation) nodeproto.Parameter {
	return nodeproto.Parameter{
		ID: p.ID, Kind: p.Kind, State: p.State, Detail: p.Error, Generation: answers, Since: p.Since, Attempts: p.Attempts,
		NextTry: p.NextTry,
	}
}

// answers is the generation of the running config, where a parameter's state is of it.
func (h *configHost) answers(p nodestate.Parameter) commitconfirm.Generation {
	t := h.d.topics
	if id := h.reporter.network(p); id != "" {
		if c, desired := t.NetworkConfig.Get("", id); desired && c.Generation != p.Generation {
			return commitconfirm.Generation{}
		}
		return h.last.Generation
	}
	if p.Kind == peer.KindExecutor || p.Kind == peer.KindCheck {
		if c, desired := t.TaskConfig.Get("", p.ID); desired != (p.Target == "present") || desired &&
			c.Generation != p.Generation {
			return commitconfirm.Generation{}
		}
		return h.last.Generation
	}
	app, _, _ := strings.Cut(strings.TrimPrefix(p.ID, "adapter/"), "/")
	if r, _ := t.AppRecords.Get("", app); r.TargetVersion != p.Generation {
		return commitconfirm.Generation{}
	}
	return h.last.Generation
}

// recorder is the config actor's leaf: what its journal keeps blocks here. It is the router's
// child, so that a record on its way outlives a crash of the config actor. It decides nothing.
type recorder struct {
	d   *deps
	pub *pubsub.Publisher[api.NodeRecord]
}

// recorderID is the recorder under the router, for the config actor.
const recorderID = "router/recorder"

func (r *recorder) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		r.pub = r.d.topics.NodeRecord.Publisher(api.OwnerConfig)
		r.pub.Adopt("", "node")
	case api.NodeRecord:
		if err := r.pub.Publish("", "node", msg); err != nil && r.d.ctx.Err() == nil {
			r.d.fail(fmt.Errorf("count the config: %w", err)) // without its journal the node can't go on
		}
	}
}

// keysOf are the keys of a config's map as topics have them.
func keysOf[V any](m map[uuid.UUID]V) map[string]bool {
	keys := make(map[string]bool, len(m))
	for k := range m {
		keys[k.String()] = true
	}
	return keys
}

// publishApps tells each network whose adapters it has to wait for.
func (h *configHost) publishApps(apps map[uuid.UUID]appnet.AppNetworkConfig) {
	on := nodestate.AppsOn(apps)
	for ni := range h.d.topics.NetworkApps.List("") {
		if on[ni] == nil {
			must(h.networkApps.Unpublish("", ni))
		}
	}
	for ni, ids := range on {
		must(h.networkApps.Publish("", ni, ids))
	}
}

// must turns an error of a topic into a crash: a journal that can't be written,
// or a second owner of our keys.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
