package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"edgespan/config"
	"edgespan/config/events"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
)

// fakeNode is a node: it applies pushes, reports every 5 s, answers probes, and undoes what is not confirmed in time.
type fakeNode struct {
	r        *rig
	name, id string

	mu         sync.Mutex
	to         *Controller
	stream     *fakeStream
	software   string
	board      string
	address    string // the source of its connections
	doc        []byte // the config that it runs
	md5        string
	generation nodeproto.Generation
	confirmed  fakeConfig
	pending    *nodeproto.PendingReport
	deadline   time.Time
	managed    *bool
	held       *nodeproto.Held
	last       map[uint64]nodeproto.Result // not acknowledged

	// How it reacts to pushes.
	reject, unhealthy string // texts in a document: refused, undone as unhealthy
	silent            bool   // it answers no probe
	sick              string // a text in the document that makes its health bad, though it keeps it
	base              string // its answer to AskBaseConfig

	parameters []nodeproto.ParameterReport // reported, of the config that it runs

	lastEvent uint64                               // reported
	events    func(events.Request) (answer []byte) // its answer to RequestEvents; nil: it knows no such question

	peer   []byte            // the PeerConfiguration that it runs
	ports  []nodeproto.Port  // reported
	stuck  map[string]string // what it can't create or remove, by id: the state that it reports instead
	untidy bool              // not settled

	tap func(*Controller, nodeproto.Push) // called for each push

	pushes []nodeproto.Push
	heard  map[string]int // by kind of message
}

type fakeConfig struct {
	doc        []byte
	peer       []byte
	md5        string
	generation nodeproto.Generation
}

// fakeStream is one stream of a node.
type fakeStream struct {
	n    *fakeNode
	at   *Controller
	id   uint64
	down chan nodeproto.FromController
	done chan struct{}
	once sync.Once
	gone chan struct{} // closed when the node no longer listens
	lost *Controller   // a controller that does not know yet
}

func (s *fakeStream) ID() uint64 { return s.id }
func (s *fakeStream) Send(m nodeproto.FromController) (err error) {
	s.n.r.carry(s.at, s.n, m, func() {
		select {
		case s.down <- m:
		default:
			err = errors.New("full")
		}
	})
	return err
}
func (s *fakeStream) End(string) { s.n.drop(s) }

func newFakeNode(r *rig, name string) *fakeNode {
	n := &fakeNode{
		r: r, name: name, id: fmt.Sprintf("00000000-0000-4000-8000-%012x", len(r.nodes)+1), software: "RELEASE_M20",
		doc: []byte("{}"), last: map[uint64]nodeproto.Result{}, heard: map[string]int{},
	}
	n.md5 = config.MD5(config.Object{})
	n.confirmed = fakeConfig{n.doc, nil, n.md5, n.generation}
	r.nodes[name] = n
	return n
}

// connect opens a stream, and ends the one before.
func (n *fakeNode) connect(c *Controller) {
	n.r.Helper()
	if err := n.try(n.r.Context(), c); err != nil {
		n.r.Fatalf("admit %s: %v", n.name, err)
	}
}

// try is connect for a controller that may be out of reach.
func (n *fakeNode) try(ctx context.Context, c *Controller) error {
	n.mu.Lock()
	hello := nodeproto.Hello{Node: n.id, Name: n.name, Software: n.software, Board: n.board, MD5: n.md5,
		Generation: n.generation, Address: n.address}
	n.mu.Unlock()
	if err := c.Admit(ctx, hello); err != nil {
		return err
	}
	n.cut()
	s := &fakeStream{n: n, at: c, id: n.r.streams.Add(1), down: make(chan nodeproto.FromController, 100),
		done: make(chan struct{}), gone: make(chan struct{})}
	n.mu.Lock()
	n.to, n.stream = c, s
	n.mu.Unlock()
	c.Connected(s, hello)
	go n.serve(c, s)
	return nil
}

// lose breaks the stream silently: the controller learns of its end by the keepalive, and what it sends meanwhile is
// lost.
func (n *fakeNode) lose() {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, c := n.stream, n.to
	if s == nil {
		return
	}
	n.stream, n.to = nil, nil
	s.lost = c
	close(s.gone)
	time.AfterFunc(40*time.Second, func() { n.drop(s) })
}

// cut ends the stream from the node's side.
func (n *fakeNode) cut() {
	n.mu.Lock()
	s := n.stream
	n.mu.Unlock()
	if s != nil {
		n.drop(s)
	}
}

func (n *fakeNode) drop(s *fakeStream) {
	s.once.Do(func() {
		close(s.done)
		n.mu.Lock()
		c := n.to
		if s.lost != nil {
			c = s.lost
		}
		if n.stream == s {
			n.stream, n.to = nil, nil
		}
		n.mu.Unlock()
		if c != nil {
			go c.Disconnected(s, nil)
		}
	})
}

// serve is the node's half of a stream.
func (n *fakeNode) serve(c *Controller, s *fakeStream) {
	say := func(m nodeproto.FromNode) { n.r.carry(c, n, m, func() { c.Received(s, m) }) }
	n.mu.Lock()
	say(n.report())
	for _, r := range n.last {
		say(r)
	}
	n.mu.Unlock()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.gone:
			return
		case <-tick.C:
			n.mu.Lock()
			n.undo(say)
			say(n.report())
			n.mu.Unlock()
		case m := <-s.down:
			n.mu.Lock()
			n.heard[fmt.Sprintf("%T", m)]++
			n.take(c, m, say)
			n.mu.Unlock()
		}
	}
}

func (n *fakeNode) report() nodeproto.Report {
	r := nodeproto.Report{
		MD5: n.md5, Generation: n.generation, Software: n.software, Board: n.board, Source: "controller", Managed: n.managed,
		Held: n.held, Settled: !n.untidy,
		Peer: peer.DigestOf(string(n.peer)), Ports: n.ports, Events: n.lastEvent,
	}
	r.Parameters = n.parts()
	for _, p := range n.parameters {
		p.Generation = n.generation
		r.Parameters = append(r.Parameters, p)
	}
	if n.sick != "" {
		r.Health = []nodeproto.HealthReport{{Name: "uplink", Good: !contains(n.doc, n.sick)}, {Name: "fan"}}
	}
	if n.pending != nil {
		p := *n.pending
		p.Remaining = time.Until(n.deadline)
		r.Pending = &p
	}
	return r
}

// undo restores the previous config if no confirmation came in time.
func (n *fakeNode) undo(say func(nodeproto.FromNode)) {
	if n.pending == nil || time.Now().Before(n.deadline) {
		return
	}
	n.back(nodeproto.Unconfirmed, say)
}

func (n *fakeNode) back(o nodeproto.PushOutcome, say func(nodeproto.FromNode)) {
	p := n.pushes[len(n.pushes)-1]
	n.doc, n.peer, n.md5, n.generation = n.confirmed.doc, n.confirmed.peer, n.confirmed.md5, n.confirmed.generation
	n.pending = nil
	res := nodeproto.Result{Attempt: p.Attempt, Generation: p.Generation, MD5: p.MD5, Outcome: o, Restored: n.generation}
	if o == nodeproto.Unhealthy {
		res.Faults = config.Faults{{Path: []string{"uplink"}, Problem: "is down"}}
	}
	n.last[p.Attempt] = res
	say(res)
	say(n.report())
}

func (n *fakeNode) take(c *Controller, m nodeproto.FromController, say func(nodeproto.FromNode)) {
	switch m := m.(type) {
	case nodeproto.Push:
		if n.tap != nil {
			n.tap(c, m)
		}
		n.pushed(m, say)
	case nodeproto.Number:
		n.generation = m.Generation
		say(n.report())
	case nodeproto.Probe:
		if !n.silent {
			say(nodeproto.Probed{Number: m.Number, Generation: n.generation, MD5: n.md5, Peer: peer.DigestOf(string(n.peer))})
		}
	case nodeproto.Confirm:
		if n.pending != nil && n.pending.Generation == m.Generation {
			n.pending = nil
			n.confirmed = fakeConfig{n.doc, n.peer, n.md5, n.generation}
			say(n.report())
		}
	case nodeproto.Managed:
		on := m.On
		n.managed = &on
		say(n.report())
	case nodeproto.Release:
		n.held = nil
		say(n.report())
	case nodeproto.Ack:
		delete(n.last, m.Attempt)
	case nodeproto.Request:
		n.asked(m, say)
	}
}

func (n *fakeNode) pushed(m nodeproto.Push, say func(nodeproto.FromNode)) {
	n.pushes = append(n.pushes, m)
	o, faults := config.ParseObject(m.Document)
	if len(faults) > 0 || config.MD5(o) != m.MD5 {
		n.r.Errorf("node %s got a document that is not its MD5", n.name)
	}
	if n.reject != "" && contains(m.Document, n.reject) {
		res := nodeproto.Result{Attempt: m.Attempt, Generation: m.Generation, MD5: m.MD5, Outcome: nodeproto.Rejected,
			Faults: config.Faults{{Path: []string{"x"}, Problem: "is bad"}}}
		n.last[m.Attempt] = res
		say(res)
		return
	}
	say(nodeproto.Result{Attempt: m.Attempt, Generation: m.Generation, MD5: m.MD5, Outcome: nodeproto.Accepted})
	n.doc, n.peer, n.md5, n.generation = m.Document, m.PeerConfiguration, m.MD5, m.Generation
	n.pending = &nodeproto.PendingReport{Generation: m.Generation, Settled: true}
	n.deadline = time.Now().Add(m.Confirm)
	if n.unhealthy != "" && contains(m.Document, n.unhealthy) {
		n.back(nodeproto.Unhealthy, say)
		return
	}
	say(n.report())
}

func (n *fakeNode) asked(m nodeproto.Request, say func(nodeproto.FromNode)) {
	switch m.Kind {
	case nodeproto.RequestConfig:
		say(nodeproto.Answer{ID: m.ID, Data: n.doc})
	case nodeproto.RequestBaseConfig:
		say(nodeproto.Answer{ID: m.ID, Data: []byte(n.base)})
	case nodeproto.RequestEvents:
		n.heard[m.Kind]++
		var q events.Request
		if err := json.Unmarshal(m.Data, &q); err != nil || n.events == nil {
			say(nodeproto.Answer{ID: m.ID, Error: "unknown question"})
			return
		}
		say(nodeproto.Answer{ID: m.ID, Data: n.events(q)})
	case nodeproto.RequestPreview:
		say(nodeproto.Answer{ID: m.ID,
			Data: []byte(`{"actions":[{"name":"RELOAD_FIREWALL","keys":["a.b"],"supported":true}]}`)})
	}
}

func contains(doc []byte, text string) bool {
	return len(text) > 0 && strings.Contains(string(doc), text)
}

// online reports whether the node has a stream, as far as it knows.
func (n *fakeNode) online() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stream != nil
}

func (n *fakeNode) got() (pushes int, md5 string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.pushes), n.md5
}

// parts returns the parameters of the PeerConfiguration that it runs: all as desired, except for the stuck ones.
func (n *fakeNode) parts() (out []nodeproto.ParameterReport) {
	c, faults := peer.Decode(n.peer)
	if len(faults) > 0 {
		n.r.Errorf("node %s got a peer configuration with faults: %v", n.name, faults)
	}
	for _, p := range c.Parameters {
		word := string(stateloop.Present)
		if p.Target == stateloop.ToBeAbsent {
			word = string(stateloop.Absent)
		}
		if other := n.stuck[p.ID]; other != "" {
			word = other
		}
		out = append(out, nodeproto.ParameterReport{ID: p.ID, Kind: p.Kind, State: word, Generation: n.generation})
	}
	return out
}
