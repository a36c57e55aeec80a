package node

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/stateloop/nodestate"
	"edgespan/config/stateloop/peer/task"
	"edgespan/netinst/netstate"
	"edgespan/pubsub"
)

// Executors runs the commands of peers: platform/executor. Every method but Ended may block, and returns by its
// context's deadline.
type Executors interface {
	List(ctx context.Context) (ids []string, err error)
	Has(ctx context.Context, id string) (bool, error)
	Check(ctx context.Context, e netstate.Executor) (is netstate.Condition, why string, err error)
	Make(ctx context.Context, e netstate.Executor) error
	Remove(ctx context.Context, id string) error
	// Ended registers f, which is called from any goroutine when a process has ended by itself.
	Ended(f func(id string))
}

// Echo probes whether a host answers: platform/probe. It returns by its context's deadline.
type Echo func(ctx context.Context, local, remote netip.Addr) (time.Duration, error)

const (
	listDeadline = 5 * time.Second
	taskRetry    = time.Second // after a listing that failed
)

type (
	listTasks   struct{}
	tasksListed struct {
		ids []string
		err error
	}
	taskTouched     struct{ id string }
	taskTick        struct{ token uint64 }
	taskWorkerReady struct {
		id  string
		pid *actor.PID
	}
)

// exec is the actor of the peer's executors and checks. It owns no logic: config/stateloop/peer/task decides the steps,
// and one child for each task runs them.
type exec struct {
	d       *deps
	m       task.Machine
	set     nodestate.TaskSet
	hands   map[string]*actor.PID
	waiting map[string]task.Do // steps whose taskWorker is starting
	open    map[string]task.Do // steps under way
	timers  timers
	tick    *time.Timer
	token   uint64 // of the tick that counts; older ticks are ignored

	subs     subscriptions
	desired  *pubsub.Subscription[nodestate.TaskConfig]
	source   *pubsub.Subscription[api.Source]
	out      *pubsub.Publisher[task.Status]
	ack      *pubsub.Publisher[uint64]
	reported map[string]task.Status
}

func (x *exec) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		x.started(c)
	case *actor.Stopping, *actor.Restarting:
		x.timers.stop()
		if x.tick != nil {
			x.tick.Stop()
		}
		x.subs.close()
	case wake:
		x.drain(c)
	case listTasks:
		x.sendStep(c)
	case tasksListed:
		x.list(c, msg)
	case taskTouched:
		x.step(c, task.Touched{At: time.Now(), ID: msg.id})
	case taskTick:
		if msg.token == x.token {
			x.step(c, task.Tick{At: time.Now()})
		}
	case taskWorkerReady:
		x.workerReady(c, msg)
	case task.Answered:
		delete(x.open, msg.ID)
		x.step(c, msg)
	}
}

func (x *exec) started(c actor.Context) {
	t := x.d.topics
	x.reported = map[string]task.Status{}
	x.hands, x.waiting, x.open = map[string]*actor.PID{}, map[string]task.Do{}, map[string]task.Do{}
	x.out, x.ack = t.TaskStatus.Publisher(api.OwnerExec), t.TasksSwept.Publisher(api.OwnerExec)
	x.ack.Adopt("", "node")
	for _, ref := range x.out.AdoptAll("") { // from an earlier incarnation: their state is checked again
		must(x.out.Unpublish("", ref.Key))
	}
	self, root := c.Self(), c.ActorSystem().Root
	x.d.executors.Ended(func(id string) { root.Send(self, taskTouched{id}) })
	x.subs = subscriptions{wake: waker(c)}
	x.source = subscribe(&x.subs, t.Source, pubsub.Selector{})
	x.desired = subscribe(&x.subs, t.TaskConfig, pubsub.Selector{})
	x.sendStep(c)
}

// sendStep lists the tasks on the host, which may block.
func (x *exec) sendStep(c actor.Context) {
	self, root := c.Self(), c.ActorSystem().Root
	go func() {
		ctx, cancel := context.WithTimeout(x.d.ctx, listDeadline)
		defer cancel()
		ids, err := x.d.executors.List(ctx)
		root.Send(self, tasksListed{ids, err})
	}()
}

func (x *exec) list(c actor.Context, l tasksListed) {
	if l.err != nil {
		x.d.log.Error("find edgespan's executors on the host", zap.Error(l.err))
		x.timers.after(c, jitter(taskRetry), func() any { return listTasks{} })
		return
	}
	x.set.Found(l.ids)
	x.want(c)
}

// drain reads the topics. It reads the source first and sends it last, as the bridge manager does.
func (x *exec) drain(c actor.Context) {
	sources := x.source.Drain()
	for _, ch := range x.desired.Drain() {
		switch ch.Kind {
		case pubsub.Created, pubsub.Modified:
			x.set.SetDesired(ch.Key, ch.New)
		case pubsub.Deleted:
			x.set.RemoveDesired(ch.Key)
		}
	}
	for _, ch := range sources {
		if ch.Kind == pubsub.Created || ch.Kind == pubsub.Modified {
			x.set.Published(ch.New.Generation, ch.New.Valid && !ch.New.Keep)
		}
	}
	if x.set.Ready() {
		x.want(c)
	}
}

// want passes the current set of tasks to the machine, and stops the workers of all others.
func (x *exec) want(c actor.Context) {
	tasks := x.set.All()
	keep := make(map[string]bool, len(tasks))
	for _, t := range tasks {
		keep[t.ID] = true
	}
	for id := range x.reported {
		if !keep[id] {
			delete(x.reported, id)
			must(x.out.Unpublish("", id))
		}
	}
	for id, pid := range x.hands {
		if _, busy := x.open[id]; !busy && !keep[id] {
			c.Stop(pid)
			delete(x.hands, id)
		}
	}
	x.step(c, task.Desired{At: time.Now(), Tasks: tasks})
}

func (x *exec) step(c actor.Context, e task.Event) {
	for _, do := range x.m.Step(e) {
		x.do(c, do)
	}
	gone := false
	for _, s := range x.m.Changed() {
		if x.set.Changed(s) {
			gone = true
		} else {
			x.publishStatus(s)
		}
	}
	if gone {
		x.want(c)
		return
	}
	if swept, is := x.set.Swept(); is {
		must(x.ack.Publish("", "node", swept)) // publishing an equal value makes no event
	}
	x.clock(c)
}

// clock schedules a Tick at the time the machine asks for.
func (x *exec) clock(c actor.Context) {
	if x.tick != nil {
		x.tick.Stop()
	}
	x.token++
	at, is := x.m.Next()
	if !is {
		return
	}
	self, root, token := c.Self(), c.ActorSystem().Root, x.token
	x.tick = time.AfterFunc(max(0, time.Until(at)), func() { root.Send(self, taskTick{token}) })
}

// publishStatus publishes the changed status of a task.
func (x *exec) publishStatus(s task.Status) {
	was := x.reported[s.ID]
	if s.State == "" || s == was {
		return
	}
	x.reported[s.ID] = s
	must(x.out.Publish("", s.ID, s))
	if s.State == was.State {
		return
	}
	text := string(s.State)
	if was.State != "" {
		text = string(was.State) + " -> " + text
	}
	x.d.log.Info("parameter", zap.String("id", s.ID), zap.String("state", text), zap.String("why", s.Reason),
		zap.Int("attempts", s.Attempts))
	ev := event(nodeapi.EventState, s.ID, "", text)
	ev.Error = s.Reason
	x.d.tell(ev)
}

// do sends a step to the task's child, and spawns the child if there is none.
func (x *exec) do(c actor.Context, do task.Do) {
	x.open[do.ID] = do
	if pid := x.hands[do.ID]; pid != nil {
		c.Send(pid, taskStep{do, x.set.Config(do.ID)})
		return
	}
	x.waiting[do.ID] = do
	x.spawn(c, do.ID)
}

func (x *exec) spawn(c actor.Context, id string) {
	if _, err := c.SpawnNamed(x.d.props(func() actor.Actor { return &taskWorker{d: x.d, id: id} }), id); err != nil {
		// The previous worker has not stopped yet.
		x.timers.after(c, 10*time.Millisecond, func() any { return taskWorkerReady{id, nil} })
	}
}

// workerReady sends a child its step. If the child has restarted after a crash, its step has failed.
func (x *exec) workerReady(c actor.Context, h taskWorkerReady) {
	if h.pid == nil {
		if _, waits := x.waiting[h.id]; waits && x.hands[h.id] == nil {
			x.spawn(c, h.id)
		}
		return
	}
	x.hands[h.id] = h.pid
	if do, waits := x.waiting[h.id]; waits {
		delete(x.waiting, h.id)
		c.Send(h.pid, taskStep{do, x.set.Config(h.id)})
		return
	}
	if do, lost := x.open[h.id]; lost {
		delete(x.open, h.id)
		x.step(c, task.Answered{At: time.Now(), ID: h.id, Seq: do.Seq, Found: task.Failed,
			Reason: fmt.Sprintf("%s: crashed", do.Step)})
	}
}
