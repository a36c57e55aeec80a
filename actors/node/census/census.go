package census

import (
	"reflect"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/actors/supervise"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/pubsub/ratelimit"
	"edgespan/pubsub/shellproto"
)

// Census counts the actors of a tree. Its middleware writes it and everybody may read it.
type Census struct {
	mu     sync.Mutex
	actors map[string]*entry
	taps   readers[shellproto.TailItem]  // by actor
	traces readers[shellproto.TraceItem] // by network, "" for all
	asks   ratelimit.Bucket              // of Ask
	Mask   func(string) string           // replaces secrets in a text; nil: nothing is masked but by name
}

// New returns an empty census.
func New() *Census {
	return &Census{actors: map[string]*entry{}, asks: ratelimit.NewBucket(askRate, askBurst)}
}

// entry is one actor. Its incarnations have one mailbox.
type entry struct {
	box   *mailbox
	vital bool

	mu    sync.Mutex
	state nodeapi.ActorStatus
	now   reflect.Type // of the message that it handles; nil: none
	since time.Time    // of now, or of doing
	doing string       // what it does for that message, in its own words
}

// Activity is what an actor does at this moment.
type Activity struct {
	nodeapi.ActorStatus
	Oldest time.Duration // how long the first message in its mailbox has waited, or at least that long
	For    time.Duration // how long it has done what Now says
	Vital  bool          // the process ends if it crashes
}

// Crashed records that an actor has crashed and when it restarts.
func (s *Census) Crashed(id string, times int, why string, restarts time.Duration) {
	e := s.entry(id)
	// The library does not report the message that crashed it as received.
	e.box.MessageReceived(nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now, e.doing = nil, ""
	e.state.Crashes, e.state.State, e.state.Last = times, "restarting", why
	e.state.LastAt, e.state.Next = time.Now(), restarts.String()
}

// Waiting returns how many messages wait for an actor.
func (s *Census) Waiting(id string) int {
	if e := s.find(id); e != nil {
		return e.box.waiting()
	}
	return 0
}

// find returns an actor, nil if there is none of that name.
func (s *Census) find(id string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.actors[id]
}

// Len returns how many actors there are.
func (s *Census) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.actors)
}

func (s *Census) entry(id string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.actors[id]
	if e == nil {
		e = newEntry(&mailbox{}, false, id)
		s.actors[id] = e
	}
	return e
}

func newEntry(box *mailbox, vital bool, id string) *entry {
	return &entry{box: box, vital: vital, state: nodeapi.ActorStatus{ID: id, State: "running"}}
}

// all returns the entries of all actors.
func (s *Census) all() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*entry, 0, len(s.actors))
	for _, e := range s.actors {
		out = append(out, e)
	}
	return out
}

// List returns the state of all actors.
func (s *Census) List() []nodeapi.ActorStatus {
	all := s.all()
	out := make([]nodeapi.ActorStatus, 0, len(all))
	for _, e := range all {
		out = append(out, e.status())
	}
	return out
}

// Activities returns what all actors do now.
func (s *Census) Activities() []Activity {
	all := s.all()
	out := make([]Activity, 0, len(all))
	for _, e := range all {
		out = append(out, e.activity(time.Now()))
	}
	return out
}

// Activity returns what one actor does now, false if there is none of that name.
func (s *Census) Activity(id string) (Activity, bool) {
	e := s.find(id)
	if e == nil {
		return Activity{}, false
	}
	return e.activity(time.Now()), true
}

// status returns the state of an actor with what it does now.
func (e *entry) status() nodeapi.ActorStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.state
	s.Waiting = e.box.waiting()
	if e.now == nil {
		return s
	}
	s.Now, s.NowSince = e.now.String(), e.since
	if e.doing != "" {
		s.Now = e.doing
	}
	return s
}

func (e *entry) activity(now time.Time) Activity {
	a := Activity{ActorStatus: e.status(), Oldest: e.box.oldest(now), Vital: e.vital}
	if a.Now != "" {
		a.For = now.Sub(a.NowSince)
	}
	return a
}

// Doing records what an actor does for the message that it handles, such as an operation on the host.
func (s *Census) Doing(id, what string) {
	e := s.find(id)
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.doing, e.since = what, time.Now()
}

// Down returns an actor that waits for its restart.
func (s *Census) Down(id string) (nodeapi.ActorStatus, bool) {
	e := s.find(id)
	if e == nil {
		return nodeapi.ActorStatus{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state, e.state.State == "restarting"
}

// Options returns the options of one actor's Props that maintain the census: new ones for each spawn. ended is called
// once the actor has stopped for good; further middleware is the inner one.
func (s *Census) Options(vital bool, ended func(id string), more ...actor.ReceiverMiddleware) []actor.PropsOption {
	box := &mailbox{}
	return []actor.PropsOption{
		supervise.Mailbox(box),
		actor.WithReceiverMiddleware(append([]actor.ReceiverMiddleware{s.receive(box, vital, ended)}, more...)...),
	}
}

// receive counts the messages of one actor and shows them to taps. It answers questions of a shell itself: the actor
// does not see them.
func (s *Census) receive(box *mailbox, vital bool, ended func(id string)) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		var own *entry
		return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
			switch msg := env.Message.(type) {
			case *actor.Started:
				own = s.started(c.Self().Id, box, vital)
			case *actor.Stopped:
				s.stopped(c.Self().Id)
				ended(c.Self().Id)
			case *actor.Stopping, *actor.Restarting:
			case question:
				msg.answer(c.Actor())
				return
			case crash:
				panic(msg.why)
			default:
				if own == nil {
					break // an actor gets nothing before Started
				}
				s.handle(own, next, c, env)
				return
			}
			next(c, env)
		}
	}
}

func (s *Census) started(id string, box *mailbox, vital bool) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.actors[id]
	if e == nil || e.box != box {
		e = newEntry(box, vital, id)
		s.actors[id] = e
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.State, e.state.Next = "running", ""
	return e
}

func (s *Census) stopped(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.actors, id)
}

// handle passes an ordinary message on.
func (s *Census) handle(e *entry, next actor.ReceiverFunc, c actor.ReceiverContext, env *actor.MessageEnvelope) {
	began := time.Now()
	e.mu.Lock()
	e.state.Messages++
	e.now, e.since = reflect.TypeOf(env.Message), began
	e.mu.Unlock()
	taps := s.taps.Load()
	if taps != nil {
		s.show(*taps, c.Self().Id, shellproto.In, env.Message)
	}
	next(c, env)
	e.mu.Lock()
	e.now, e.doing = nil, ""
	e.mu.Unlock()
	if taps != nil {
		took(*taps, c.Self().Id, env.Message, time.Since(began))
	}
}
