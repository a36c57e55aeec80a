package node

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/netinst/probe"
	"edgespan/pubsub"
)

// probes is the actor that sends the probes of all networks, each once however many networks need it
// (docs/adr/0060-uplinks-by-probing.md). It decides nothing: probe.Outcomes.Next says when.
//
// A shot is a goroutine with a deadline, so that a target that does not answer delays neither the next shot nor another
// probe.
type probes struct {
	d       *deps
	subs    subscriptions
	needed  *pubsub.Subscription[probe.ID]
	out     *pubsub.Publisher[probe.Outcomes]
	timers  timers
	running map[string]*probing
	token   uint64
	budgets budgets
}

// probing is one probe that runs.
type probing struct {
	outcomes probe.Outcomes
	needs    map[string]bool // networks
	flying   int             // shots under way
	shots    uint64          // sent
	answered uint64          // the number of the last shot that is not late any more
	late     bool            // a shot is late, and none was answered since
	turn     uint64          // of the timer that counts
	due      time.Time       // of the next shot
	kept     string          // why the node did not send the previous shot
	bytes    int             // of the previous shot, or an estimate
	taken    int             // of the port's budget for the next shot
	waits    bool            // the next shot has its bytes, and waits until they may be sent
}

// The shots under way have an upper bound: of one probe, and of all, so that the targets of a large config that are
// silent leave enough file descriptors to everything else.
const (
	maxFlying    = 16
	maxAllFlying = 4096
)

type (
	// probeNow requests that the probes of a network are sent now.
	probeNow struct{ network string }
	shotDue  struct {
		key  string
		turn uint64
	}
	shotLate struct {
		key    string
		number uint64
	}
	shotEnded struct {
		key     string
		number  uint64
		outcome probe.Outcome
		taken   int  // of the port's budget
		bytes   int  // sent and received
		kept    bool // the node did not send it
	}
)

func (p *probes) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		p.running = map[string]*probing{}
		p.subs = subscriptions{wake: waker(c)}
		p.needed = subscribe(&p.subs, p.d.topics.ProbeRequest, pubsub.Selector{AllScopes: true})
		p.out = p.d.topics.ProbeOutcomes.Publisher(api.OwnerProbes)
		p.budgets = newBudgets(p.d.topics, p.d.now)
		before := p.out.AdoptAll("")
		p.drain(c)
		for _, ref := range before { // what an earlier incarnation sent for networks that are gone
			if p.running[ref.Key] == nil {
				must(p.out.Unpublish("", ref.Key))
			}
		}
	case *actor.Stopping, *actor.Restarting:
		p.timers.stop()
		p.subs.close()
	case wake:
		p.drain(c)
	case probeNow:
		for key, x := range p.running {
			if x.needs[msg.network] {
				p.hasten(c, key, x, 0)
			}
		}
	case shotDue:
		if x := p.running[msg.key]; x != nil && x.turn == msg.turn {
			p.shoot(c, msg.key, x)
		}
	case shotLate:
		if x := p.running[msg.key]; x != nil && msg.number > x.answered && !x.late {
			x.late = true
			p.hasten(c, msg.key, x, 0)
		}
	case shotEnded:
		if x := p.running[msg.key]; x != nil {
			p.ended(c, msg.key, x, msg)
		}
	}
}

// drain begins probes that are needed, and ends those that no network needs any more.
func (p *probes) drain(c actor.Context) {
	for _, ch := range p.needed.Drain() {
		x := p.running[ch.Key]
		switch ch.Kind {
		case pubsub.Created, pubsub.Modified:
			if x == nil {
				x = &probing{outcomes: probe.Outcomes{ID: ch.New}, needs: map[string]bool{}, bytes: ch.New.Expected()}
				p.running[ch.Key] = x
				p.shoot(c, ch.Key, x)
			}
			x.needs[ch.Scope] = true
		case pubsub.Deleted:
			if x == nil {
				continue
			}
			if delete(x.needs, ch.Scope); len(x.needs) == 0 {
				delete(p.running, ch.Key)
				must(p.out.Unpublish("", ch.Key))
				p.budgets.end(x.outcomes.ID.Port)
			}
		}
	}
}

// hasToWait reports whether a shot must wait until its bytes may be sent, and sets its timer then.
func (p *probes) hasToWait(c actor.Context, key string, x *probing) bool {
	if x.waits { // its time has come
		x.waits = false
		return false
	}
	x.taken = x.bytes
	wait := p.budgets.take(x.outcomes.ID.Port, x.taken)
	if x.waits = wait > 0; x.waits {
		p.wait(c, key, x, wait)
	}
	return x.waits
}

// shoot sends one shot and sets the timer of the next.
func (p *probes) shoot(c actor.Context, key string, x *probing) {
	if p.hasToWait(c, key, x) {
		return
	}
	id, self, root, d, taken := x.outcomes.ID, c.Self(), c.ActorSystem().Root, p.d, x.taken
	p.wait(c, key, x, x.outcomes.Next(x.late))
	if x.flying >= min(maxFlying, max(1, maxAllFlying/len(p.running))) {
		p.budgets.take(id.Port, -taken)
		return
	}
	x.flying++
	x.shots++
	number := x.shots
	p.timers.after(c, x.outcomes.Late(), func() any { return shotLate{key, number} })
	go func() {
		ctx, cancel := context.WithTimeout(d.ctx, id.Timeout)
		defer cancel()
		began := d.now()
		took, bytes, err := d.host.Probe(ctx, id)
		o := probe.Outcome{At: began, Took: took, Lasted: d.now().Sub(began)}
		if o.None = errors.Is(err, probe.ErrNone); err != nil {
			o.Error = err.Error()
			if errors.Is(err, context.DeadlineExceeded) {
				o.Error = "no answer"
			}
		}
		if d.ctx.Err() == nil {
			root.Send(self, shotEnded{key, number, o, taken, bytes, errors.Is(err, probe.ErrNotAsked)})
		}
	}()
}

// wait sets the timer of the next shot.
func (p *probes) wait(c actor.Context, key string, x *probing, after time.Duration) {
	p.token++
	turn := p.token
	x.turn, x.due = turn, time.Now().Add(after)
	p.timers.after(c, after, func() any { return shotDue{key, turn} })
}

// ended records an outcome, publishes it if it may matter to a network, and shoots sooner after a failure.
func (p *probes) ended(c actor.Context, key string, x *probing, shot shotEnded) {
	x.flying--
	p.budgets.take(x.outcomes.ID.Port, shot.bytes-shot.taken)
	if shot.bytes > 0 {
		x.bytes = shot.bytes
	}
	if shot.kept {
		if x.answered = max(x.answered, shot.number); x.kept != shot.outcome.Error {
			x.kept = shot.outcome.Error
			p.d.of(logProbe).Warn("probe an uplink", zap.String("probe", key), zap.String("err", x.kept))
		}
		return
	}
	x.kept = ""
	if shot.outcome.OK() {
		x.answered, x.late = max(x.answered, shot.number), false
	}
	x.outcomes = x.outcomes.Add(shot.outcome)
	if x.outcomes.Telling() {
		must(p.out.Publish("", key, x.outcomes))
	}
	p.hasten(c, key, x, x.outcomes.Next(x.late))
}

// hasten sends the next shot after at most that time.
func (p *probes) hasten(c actor.Context, key string, x *probing, after time.Duration) {
	if !x.waits && time.Until(x.due) > after {
		p.wait(c, key, x, after)
	}
}

// budgets bound what the probes of metered ports send and receive.
//
// What is left is journalled before it is used, in parts of a two-hundredth of a day's bytes: so a daemon that crashes
// again and again has sent no more than it knows of, and the journal is written rarely.
type budgets struct {
	topics *api.Topics
	clock  func() time.Time
	pub    *pubsub.Publisher[probe.Budget]
	now    map[string]probe.Budget // by port
}

// partsPerDay is how many times a day's bytes are journalled.
const partsPerDay = 200

func newBudgets(t *api.Topics, clock func() time.Time) budgets {
	b := budgets{topics: t, clock: clock, pub: t.ProbeBudgets.Publisher(api.OwnerProbes), now: map[string]probe.Budget{}}
	b.pub.AdoptAll("")
	return b
}

// take takes bytes of a port's budget, and returns how long the shot that needs them must wait.
func (b *budgets) take(port string, bytes int) (wait time.Duration) {
	config, _ := b.topics.PortConfig.Get("", port)
	perDay, now := config.ProbeBudget(), b.clock()
	if perDay == 0 {
		return 0
	}
	stored, known := b.topics.ProbeBudgets.Get("", port)
	left, running := b.now[port]
	switch {
	case running:
	case known:
		left = stored
	default:
		left = probe.NewBudget(perDay, now)
	}
	left, wait = left.Take(perDay, bytes, now)
	b.now[port] = left
	if !known || stored.Filled(perDay, now).Left > left.Left {
		must(b.pub.Publish("", port, probe.Budget{Left: left.Left - perDay/partsPerDay, At: left.At}))
	}
	return wait
}

// end forgets the budget of a port that has none any more.
func (b *budgets) end(port string) {
	if config, _ := b.topics.PortConfig.Get("", port); config.ProbeBudget() > 0 {
		return
	}
	delete(b.now, port)
	if _, known := b.topics.ProbeBudgets.Get("", port); known {
		must(b.pub.Unpublish("", port))
	}
}
