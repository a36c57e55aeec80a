package probe

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Chooser is the state machine that chooses the ports of one network: events in, effects out. Create it with New.
type Chooser struct {
	config    Config
	selectors []string
	ports     map[string]*port // by name
	known     bool             // the ports were seen
	health    map[ID]*health
	drained   map[string]time.Time
	chosen    map[string]chosen // by selector
	watched   []ID
	shown     map[string]Choice
	record    Record
	written   time.Time // when the record was journalled last
	tunnel    tunnel
	token     uint64
	due       time.Time // of the timer, zero for none
}

// port is a port with its probes and its past.
type port struct {
	Port
	gateway, remote []ID
	hold            Hold // after failures
	alive           bool
	seen            bool // alive is known
	limit           Hold // after a limit of loss or latency was exceeded
	within          bool // the limits
	away            Hold // after the tunnel was not answered by it
}

// held returns until when a network does not return to the port.
func (p *port) held() time.Time {
	if p.limit.Until.After(p.hold.Until) {
		return p.limit.Until
	}
	return p.hold.Until
}

// chosen is the port that a selector has.
type chosen struct {
	Label string    `json:"label"`
	Since time.Time `json:"since"`
}

// Record is what a Chooser must know after a restart.
type Record struct {
	Chosen map[string]chosen `json:"chosen,omitempty"` // by selector
	Holds  map[string]Hold   `json:"holds,omitempty"`  // by label, of IPv6 by OfIPv6
	Limits map[string]Hold   `json:"limits,omitempty"` // in the same way
	Aways  map[string]Hold   `json:"aways,omitempty"`  // of a tunnel, in the same way
}

// Choice is the decision about one selector.
type Choice struct {
	Port  string // label; "" for none
	Since time.Time
	Why   string  // what made it: why the port before was left, and what is better about this one
	Ports []Score // the ports of the selector, the best first
}

// Score is how one port was judged.
type Score struct {
	Label   string
	Class   Class
	Cost    int
	Loss    int // percent
	Latency time.Duration
	Since   time.Time // when its class changed last, or this process judged it first
	Held    time.Time // until when it is not returned to; zero: it is not held
	Why     string    // why it is in no better class; "" if there is none
	// Resting means that its hold-down is not over, even if it is in use.
	Resting bool
}

// Event is what a Chooser is told.
type Event interface{ chooserEvent() }

// The events.
type (
	// Configured is how the network judges ports, and the values of `port` by which it and its routes select them.
	Configured struct {
		Config    Config
		Selectors []string
		Ports     []Port // as in PortsSeen, since they name the selectors; nil: not known yet
		Tunnel    bool   // the network has a tunnel, of which TunnelSeen tells
		At        time.Time
	}
	// PortsSeen are all ports that a selector may select, as the host shows them now.
	PortsSeen struct {
		Ports []Port
		At    time.Time
	}
	// OutcomesSeen are outcomes of one probe. Those that were judged before are skipped.
	OutcomesSeen struct {
		Outcomes Outcomes
		At       time.Time
	}
	// Drained are the ports that an operator keeps free, each until a time; zero means until it is undrained.
	Drained struct {
		Ports map[string]time.Time
		At    time.Time
	}
	// TunnelSeen says what is heard of the network's tunnel.
	TunnelSeen struct {
		Heard
		At time.Time
	}
	// TimerDue answers a Timer.
	TimerDue struct {
		Token uint64
		At    time.Time
	}
)

func (Configured) chooserEvent()   {}
func (PortsSeen) chooserEvent()    {}
func (OutcomesSeen) chooserEvent() {}
func (Drained) chooserEvent()      {}
func (TunnelSeen) chooserEvent()   {}
func (TimerDue) chooserEvent()     {}

// Effect is what a Chooser wants done.
type Effect interface{ chooserEffect() }

// The effects.
type (
	// Watch are the probes that the network needs now, instead of those before.
	Watch struct{ IDs []ID }
	// Choose is the decision by selector, whenever anything about it has changed.
	Choose struct{ Choices map[string]Choice }
	// Journal must survive a restart. It follows Choose, which must not wait for a disk.
	Journal struct{ Record Record }
	// Timer asks for a TimerDue.
	Timer struct {
		Token uint64
		After time.Duration
	}
)

func (Watch) chooserEffect()   {}
func (Choose) chooserEffect()  {}
func (Journal) chooserEffect() {}
func (Timer) chooserEffect()   {}

// New returns the Chooser of a network, with what it journalled last.
func New(r Record) *Chooser {
	c := &Chooser{ports: map[string]*port{}, health: map[ID]*health{}, chosen: maps.Clone(r.Chosen), record: r}
	if c.chosen == nil {
		c.chosen = map[string]chosen{}
	}
	return c
}

// Step takes one event and returns the effects.
func (c *Chooser) Step(e Event) []Effect {
	var at time.Time
	switch e := e.(type) {
	case Configured:
		if !reflect.DeepEqual(c.config, e.Config) {
			for id, h := range c.health { // judged by other thresholds
				again := &health{state: Unknown}
				again.learn(h.outcomes, e.Config)
				c.health[id] = again
			}
			for _, p := range c.ports { // and other limits
				p.limit, p.within = Hold{}, true
			}
		}
		c.config, c.selectors, at = e.Config, slices.Clone(e.Selectors), e.At
		if e.Ports != nil {
			c.portsSeen(e.Ports)
		}
		if !e.Tunnel {
			c.forgetTunnel()
		}
	case PortsSeen:
		c.portsSeen(e.Ports)
		at = e.At
	case OutcomesSeen:
		h := c.health[e.Outcomes.ID]
		if h == nil {
			return nil // no longer needed
		}
		if !h.learn(e.Outcomes, c.config) {
			return nil
		}
		at = e.At
	case Drained:
		c.drained, at = maps.Clone(e.Ports), e.At
	case TunnelSeen:
		c.tunnelSeen(e)
		at = e.At
	case TimerDue:
		if e.Token != c.token {
			return nil
		}
		c.due, at = time.Time{}, e.At
	}
	if !c.known || len(c.selectors) == 0 && c.watched == nil {
		return nil // the config or the ports are unknown, or the network never had a port
	}
	var out []Effect
	switch e.(type) {
	case Configured, PortsSeen: // the other events change no probe, and come often
		out = c.plan()
	}
	c.age(at)
	c.leaveSilent(at)
	return append(out, c.decide(at)...)
}

func (c *Chooser) portsSeen(list []Port) {
	now := map[string]*port{}
	for _, p := range list {
		x := c.ports[p.name()]
		if x == nil {
			x = &port{hold: c.record.Holds[p.name()], limit: c.record.Limits[p.name()], within: true,
				away: c.record.Aways[p.name()]}
			x.seen = x.hold.Failed
		}
		x.Port = p
		now[p.name()] = x
	}
	c.ports, c.known = now, true
}

// plan determines the probes of each port, and forgets those that are no longer needed.
func (c *Chooser) plan() []Effect {
	ids, candidates := []ID{}, map[bool]int{} // by family
	for _, p := range c.ports {
		if c.selected(p) {
			candidates[p.IPv6]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.ports)) {
		p := c.ports[name]
		gateway, remote := p.gateway, p.remote
		p.gateway, p.remote = nil, nil
		if c.selected(p) {
			p.gateway, p.remote = c.config.probes(p.Port, candidates[p.IPv6] == 1)
		}
		c.succeed(p.gateway, gateway)
		c.succeed(p.remote, remote)
		ids = append(append(ids, p.gateway...), p.remote...)
	}
	maps.DeleteFunc(c.health, func(id ID, _ *health) bool { return !slices.Contains(ids, id) })
	if c.watched != nil && slices.Equal(ids, c.watched) {
		return nil
	}
	c.watched = ids
	return []Effect{Watch{slices.Clone(ids)}}
}

// succeed begins the new probes of a port. They continue the failures in a row of the probes that they replace:
// if a dead port learned other DNS servers again and again, it would never fail otherwise.
func (c *Chooser) succeed(ids, before []ID) {
	old := c.healthOf(slices.DeleteFunc(slices.Clone(before), func(id ID) bool { return c.health[id] == nil }))
	for _, id := range ids {
		if c.health[id] == nil {
			c.health[id] = successor(old, c.config.failAfter())
		}
	}
}

func (c *Chooser) selected(p *port) bool {
	return slices.ContainsFunc(p.Selectors, func(s string) bool { return slices.Contains(c.selectors, s) })
}

// decide chooses a port for each selector.
func (c *Chooser) decide(now time.Time) (out []Effect) {
	choices, moved := map[string]Choice{}, false
	for _, s := range c.selectors {
		scores := c.scores(s, now)
		c.date(scores, s, now)
		before, had := c.chosen[s]
		choice := Choice{Ports: scores, Port: before.Label, Since: before.Since, Why: "in use before the restart"}
		if shown, known := c.shown[s]; known {
			choice.Why = shown.Why
		}
		best := ""
		if len(scores) > 0 {
			best = scores[0].Label
		}
		if !had || best != before.Label {
			choice.Port, choice.Since = best, now
			choice.Why = reason(scores, before.Label)
			c.chosen[s], moved = chosen{best, now}, true
			c.tunnel.lost = false
			choice.Ports = c.scores(s, now) // what was left may be held from now on
			c.date(choice.Ports, s, now)
		}
		choices[s] = choice
	}
	maps.DeleteFunc(c.chosen, func(s string, _ chosen) bool { return !slices.Contains(c.selectors, s) })
	if !reflect.DeepEqual(c.shown, choices) {
		c.shown = choices
		out = append(out, Choose{choices})
	}
	r := c.newRecord()
	stale := !reflect.DeepEqual(r, c.record)
	if stale && (moved || !now.Before(c.written.Add(journalEvery))) {
		c.record, c.written, stale = r, now, false
		out = append(out, Journal{r})
	}
	return append(out, c.timer(now, stale)...)
}

// journalEvery bounds what a port that toggles makes a network write: a move is journalled at once, hold-downs are
// journalled no more often than that.
const journalEvery = 5 * time.Second

func (c *Chooser) newRecord() Record {
	r := Record{Chosen: maps.Clone(c.chosen), Holds: map[string]Hold{}}
	for name, p := range c.ports {
		if p.hold != (Hold{}) {
			r.Holds[name] = p.hold
		}
		if p.limit != (Hold{}) {
			if r.Limits == nil {
				r.Limits = map[string]Hold{}
			}
			r.Limits[name] = p.limit
		}
		if p.away != (Hold{}) {
			if r.Aways == nil {
				r.Aways = map[string]Hold{}
			}
			r.Aways[name] = p.away
		}
	}
	return r
}

// timer asks for the next moment at which a hold-down or a drain ends, or a stale record is journalled.
func (c *Chooser) timer(now time.Time, stale bool) []Effect {
	var next time.Time
	consider := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, p := range c.ports {
		if p.alive {
			consider(p.hold.Until)
		}
		consider(p.limit.Until)
		consider(p.away.Until)
		consider(c.drained[p.Label])
	}
	for _, x := range c.chosen {
		consider(c.lostAt(x.Since))
	}
	if stale {
		consider(c.written.Add(journalEvery))
	}
	if next.Equal(c.due) {
		return nil
	}
	c.due = next
	c.token++
	if next.IsZero() {
		return nil
	}
	return []Effect{Timer{c.token, next.Sub(now)}}
}

// better compares two scores of one selector, the better first; current is the label of the port in use.
func better(a, b Score, current string) int {
	inUse := func(s Score) int {
		if s.Label == current {
			return 0
		}
		return 1
	}
	if c := cmp.Compare(b.Class, a.Class); c != 0 {
		return c
	}
	if a.Class < lowestWorking { // nothing works: a move would only break flows
		if c := cmp.Compare(inUse(a), inUse(b)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(inUse(a), inUse(b)), cmp.Compare(a.Loss, b.Loss),
		cmp.Compare(a.Latency, b.Latency), cmp.Compare(a.Label, b.Label))
}
