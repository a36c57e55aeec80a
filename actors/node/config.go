package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/actors/agent"
	"edgespan/actors/node/api"
	"edgespan/actors/supervise"
	"edgespan/appnet"
	core "edgespan/config"
	"edgespan/config/events"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/nodeside"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/nodeconf"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/nodestate"
	"edgespan/config/stateloop/peer"
	"edgespan/netinst"
	"edgespan/netinst/probe"
	"edgespan/pubsub"
	"edgespan/pubsub/shellproto"
	"edgespan/pubsub/trace"
)

// configHost is the node as its config actor sees it: it publishes configs to the topics and derives the node's health
// from the statuses that their owners publish.
type configHost struct {
	d       *deps
	record  api.NodeRecord
	last    commitconfirm.Publish
	settled bool // every status answers the last config
	fault   string
	linked  nodeside.Link // as published

	networks    *pubsub.Publisher[netinst.NetworkInstanceConfig]
	apps        *pubsub.Publisher[appnet.AppNetworkConfig]
	ports       *pubsub.Publisher[netinst.PortConfig]
	networkApps *pubsub.Publisher[[]string]
	tasks       *pubsub.Publisher[nodestate.TaskConfig]
	sys         *pubsub.Publisher[nodeconf.SysParams]
	source      *pubsub.Publisher[api.Source]
	subs        subscriptions
	states      *pubsub.Subscription[netinst.PortStatus]
	choices     *pubsub.Subscription[map[string]probe.Choice]
	swept       *pubsub.Subscription[uint64]
	reporter    reporter
}

// configProps returns the props of the config actor: the agent, which also answers the router's heartbeat.
func (d *deps) configProps() *actor.Props {
	return d.vital(d.agent.Producer, func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, e *actor.MessageEnvelope) {
			if p, ok := e.Message.(ping); ok {
				c.ActorSystem().Root.Send(c.Parent(), pong{"config", p.beat})
				return
			}
			next(c, e)
		}
	})
}

// Start subscribes to the topics.
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
	h.choices = subscribe(&h.subs, t.Uplinks, pubsub.Selector{})
	h.swept = subscribe(&h.subs, t.TasksSwept, pubsub.Selector{})
	h.d.link.Watch(wake)
}

// Stop ends the subscriptions.
func (h *configHost) Stop() { h.subs.close() }

// ReportProblem publishes what is wrong with the config source.
func (h *configHost) ReportProblem(text string) {
	h.fault = text
	s, _ := h.d.topics.Source.Get("", "node")
	s.Error = text
	must(h.source.Publish("", "node", s))
}

// Publish publishes a config to the topics: ports first, networks last, so that a reader of an app also sees what the
// app depends on. Objects that left the config are withdrawn in reverse order.
func (h *configHost) Publish(p commitconfirm.Publish, of trace.Context) {
	h.d.traceConfig(of)
	t, cfg := h.d.topics, p.Config.(nodestate.ValidatedConfig)
	h.last, h.settled = p, false
	tasks := nodestate.TasksOf(cfg.Peer)
	cfg.Networks = nodestate.WithDriftObserved(cfg.Networks, cfg.Sys.Drift == nodeconf.DriftObserve)
	md5 := core.MD5(p.Document)
	h.record = api.NodeRecord{
		Source: string(p.Source), Generation: p.Seq, FileDigest: p.FileDigest, MD5: md5,
		Networks: nodestate.UpdateVersions(h.record.Networks, cfg.Networks, p.Seq),
		Ports:    nodestate.UpdateVersions(h.record.Ports, cfg.Ports, p.Seq),
		Tasks:    nodestate.UpdateVersions(h.record.Tasks, tasks, p.Seq),
	}
	h.d.journalRecord(h.record)
	h.recordPublished(p, cfg)
	must(h.sys.Publish("", "node", cfg.Sys))
	h.d.setLevel(cfg.Sys.LogLevel)
	h.withdraw(cfg.Config, tasks)
	for label, p := range cfg.Ports {
		p.Generation = h.record.Ports[label].Generation
		must(h.ports.Publish("", label, p))
	}
	h.followLink()                             // before the networks are other ones
	h.publishApps(cfg.Apps)                    // before the networks, which wait for the apps named here
	for _, id := range inOrder(cfg.Networks) { // the order of their numbers, in which a plan has them, too
		n := cfg.Networks[id]
		n.Generation = h.record.Networks[id.String()].Generation
		n, _ = h.linked.Apply(n)
		must(h.networks.Publish("", id.String(), n))
	}
	for _, id := range inOrder(cfg.Apps) {
		must(h.apps.Publish("", id.String(), cfg.Apps[id]))
	}
	for id, x := range tasks {
		x.Generation = h.record.Tasks[id].Generation
		must(h.tasks.Publish("", id, x))
	}
	h.reporter.setPeers(cfg.Peer)
	s, _ := t.Source.Get("", "node")
	must(h.source.Publish("", "node", api.Source{
		Source: string(p.Source), Generation: p.Seq, MD5: md5, FileDigest: p.FileDigest, Error: h.fault, Keep: p.Keep,
		Valid: s.Valid || !p.Keep,
	}))
	log := supervise.Traced(h.d.of(logConfig), of)
	log.Info("config published", zap.String("source", string(p.Source)), zap.Uint64("gen", p.Seq),
		zap.String("md5", md5),
		zap.Int("networks", len(cfg.Networks)), zap.Int("apps", len(cfg.Apps)))
}

// followLink publishes again what depends on the link to the controller, once that has changed.
func (h *configHost) followLink() {
	before := h.linked
	h.linked = nodeside.LinkOf(h.d.link.ClusterKeys())
	h.linked.Controllers = h.d.link.Controllers()
	if h.linked.Same(before) {
		return
	}
	for id, n := range h.d.topics.NetworkConfig.List("") {
		if now, other := h.linked.Apply(n); other {
			must(h.networks.Publish("", id, now))
		}
	}
	if text := h.linked.Describe(before); text != "" {
		h.d.recordEvent(event(nodeapi.EventSecurity, "node", "", text))
	}
}

// recordPublished records the event of a config, before anything is published that it causes.
func (h *configHost) recordPublished(p commitconfirm.Publish, cfg nodestate.ValidatedConfig) {
	h.d.published.Store(p.Seq)
	s, _ := h.d.topics.Source.Get("", "node")
	if p.Seq == s.Generation || p.Keep && !s.Valid {
		return
	}
	e := event(nodeapi.EventConfig, "config", "", fmt.Sprintf("generation %d from %s: networks %d, apps %d, ports %d",
		p.Seq, p.Source, len(cfg.Networks), len(cfg.Apps), len(cfg.Ports)))
	e.Cause = events.Cause{Config: p.Seq, Generation: p.Generation.String(), Source: string(p.Source), By: p.By}
	h.d.recordEvent(e)
}

// recordDecision records what becomes of a config after it is published: it is confirmed, undone or renumbered.
func (d *deps) recordDecision(x agent.Event) {
	d.census.Step(shellproto.TraceItem{Where: "config", What: fmt.Sprint(x.What, " ", x.About.Generation), Error: x.Why})
	switch text := string(x.What); x.What {
	case commitconfirm.NowConfirmed, commitconfirm.Renumbered, commitconfirm.OnFallback, agent.UndoBegan:
		e := event(nodeapi.EventConfig, "config", "", text)
		e.Cause.Generation = x.About.Generation.String()
		if x.Why != "" {
			e.Text += ": " + x.Why
		}
		d.recordEvent(e)
	}
}

// withdraw removes from the topics the objects that the config does not contain.
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

// Drain reads the statuses of networks, apps and ports.
func (h *configHost) Drain() {
	h.reporter.drain()
	h.states.Drain()
	h.choices.Drain()
	h.swept.Drain()
}

// Observe reports the health of the node: its networks, adapters and ports.
func (h *configHost) Observe() agent.Observation {
	h.Drain()
	h.followLink()
	t := h.d.topics
	if !h.settled && h.last.Config != nil && h.d.view().AllAnswered() {
		h.settled = true
		h.d.traceConfig(trace.Context{})
	}
	l := agent.Observation{Settled: h.settled}
	all := t.Reported.All()
	classes, byPort := h.uplinks()
	l.Parameters, l.Health = make([]nodeproto.ParameterReport, 0, len(all)), make([]nodeproto.HealthReport, 0, len(all))
	for _, e := range all {
		p := e.Value
		if good, counts := p.Healthy(); counts {
			l.Health = append(l.Health, nodeproto.HealthReport{Name: p.ID, Good: good, Detail: p.Error})
		}
		report := parameter(p, h.answers(p))
		if p.Kind == stateloop.KindNetwork && p.Error == "" {
			report.Detail = byPort[p.ID]
		}
		l.Parameters = append(l.Parameters, report)
	}
	if h.settled { // until then, an object without a status may still exist
		for _, p := range h.reporter.absentParameters() {
			l.Parameters = append(l.Parameters, parameter(p, h.last.Generation))
		}
	}
	l.Ports = nodeside.Ports(t.PortStatus.List(""))
	l.Ports = append(l.Ports, nodeside.Tunnels(nodeside.TunnelFacts{Networks: t.NetworkConfig.List(""),
		Networked: t.NetworkStatus.List(""), Tunnels: t.Tunnels.List(""), Ports: t.PortStatus.List(""),
		Link: h.linked})...)
	for label, c := range t.PortConfig.List("") {
		s, _ := t.PortStatus.Get("", label)
		s.IfName = c.IfName // it may have no status yet
		why := s.Problem()
		l.Health = append(l.Health, nodeproto.HealthReport{Name: "port/" + label, Good: why == "",
			Detail: cmp.Or(why, classes[label])})
	}
	slices.SortFunc(l.Health, func(a, b nodeproto.HealthReport) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(l.Parameters, func(a, b nodeproto.ParameterReport) int { return cmp.Compare(a.ID, b.ID) })
	return l
}

// uplinks returns how networks judge each port, by label, and the port of each network, by parameter. They are for
// people: whether a provider answers says nothing about the config, so it makes no health item bad and no parameter
// fail, and undoes no push.
func (h *configHost) uplinks() (classes, byPort map[string]string) {
	choices := h.d.topics.Uplinks.List("")
	byPort = map[string]string{}
	for id, by := range choices {
		if c, _ := h.d.topics.NetworkConfig.Get("", id); c.Inactive {
			delete(choices, id)
		} else {
			byPort[stateloop.NetworkID(id)] = probe.Report(by, c.Port)
		}
	}
	return probe.Classes(choices), byPort
}

func parameter(p nodestate.ParameterStatus, answers commitconfirm.Generation) nodeproto.ParameterReport {
	return nodeproto.ParameterReport{
		ID: p.ID, Kind: p.Kind, State: p.State, Detail: p.Error, Generation: answers, Since: p.Since, Attempts: p.Attempts,
		NextTry: p.NextTry,
	}
}

// answers returns the generation of the running config if the parameter's state belongs to it.
func (h *configHost) answers(p nodestate.ParameterStatus) commitconfirm.Generation {
	t := h.d.topics
	if id := h.reporter.networkOf(p); id != "" {
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

// recorder is the config actor's leaf, because writing its journal blocks. It is a child of the router, so that a
// record under way survives a crash of the config actor. It decides nothing.
type recorder struct {
	d   *deps
	pub *pubsub.Publisher[api.NodeRecord]
}

// recorderID is the recorder's id below the router, used by the config actor.
const recorderID = "router/recorder"

func (r *recorder) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		r.pub = r.d.topics.NodeRecord.Publisher(api.OwnerConfig)
		r.pub.Adopt("", "node")
	case api.NodeRecord:
		if err := r.pub.Publish("", "node", msg); err != nil && r.d.ctx.Err() == nil {
			r.d.fail(fmt.Errorf("count the config: %w", err)) // the node cannot go on without its journal
		}
	}
}

// keysOf returns the keys of a config's map in the form topics use.
func keysOf[V any](m map[uuid.UUID]V) map[string]bool {
	keys := make(map[string]bool, len(m))
	for k := range m {
		keys[k.String()] = true
	}
	return keys
}

// inOrder returns the UUIDs of a config's map in the order of their text.
func inOrder[V any](m map[uuid.UUID]V) []uuid.UUID {
	return slices.SortedFunc(maps.Keys(m), func(a, b uuid.UUID) int { return cmp.Compare(a.String(), b.String()) })
}

// publishApps publishes for each network the apps whose adapters it has to wait for.
func (h *configHost) publishApps(apps map[uuid.UUID]appnet.AppNetworkConfig) {
	on := nodestate.AppsByNetwork(apps)
	for ni := range h.d.topics.NetworkApps.List("") {
		if on[ni] == nil {
			must(h.networkApps.Unpublish("", ni))
		}
	}
	for ni, ids := range on {
		must(h.networkApps.Publish("", ni, ids))
	}
}

// must turns an error of a topic into a crash: the journal can't be written, or a second owner uses the same key.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
