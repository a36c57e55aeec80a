package node

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/actors/node/cores"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/stateloop/nodestate"
	"edgespan/config/stateloop/peer/task"
	"edgespan/netinst/netstate"
	"edgespan/pubsub"
	"edgespan/pubsub/tape"
)

// Executors runs the commands of peers: platform/executor. Every method but Ended may block, and returns by its
// context's deadline.
type Executors interface {
	List(ctx context.Context) (ids []string, err error)
	Has(ctx context.Context, id string) (bool, error)
	Check(ctx context.Context, e netstate.Executor) (condition netstate.Condition, why string, err error)
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
	reel    *tape.Reel
	taskSet nodestate.TaskSet
	workers map[string]*actor.PID
	waiting map[string]task.Do // steps whose taskWorker is starting
	running map[string]task.Do // steps under way
	timers  timers
	tick    *time.Timer
	token   uint64 // of the tick that counts; older ticks are ignored

	subs     subscriptions
	desired  *pubsub.Subscription[nodestate.TaskConfig]
	source   *pubsub.Subscription[api.Source]
	out      *pubsub.Publisher[task.Status]
	sweptPub *pubsub.Publisher[uint64]
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
		x.requestList(c)
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
		delete(x.running, msg.ID)
		x.step(c, msg)
	}
}

func (x *exec) started(c actor.Context) {
	t := x.d.topics
	x.reel = x.d.tape.Reel(cores.Tasks, "")
	x.reported = map[string]task.Status{}
	x.workers, x.waiting, x.running = map[string]*actor.PID{}, map[string]task.Do{}, map[string]task.Do{}
	x.out, x.sweptPub = t.TaskStatus.Publisher(api.OwnerExec), t.TasksSwept.Publisher(api.OwnerExec)
	x.sweptPub.Adopt("", "node")
	for _, ref := range x.out.AdoptAll("") { // from an earlier incarnation: their state is checked again
		must(x.out.Unpublish("", ref.Key))
	}
	self, root := c.Self(), c.ActorSystem().Root
	x.d.executors.Ended(func(id string) { root.Send(self, taskTouched{id}) })
	x.subs = subscriptions{wake: waker(c)}
	x.source = subscribe(&x.subs, t.Source, pubsub.Selector{})
	x.desired = subscribe(&x.subs, t.TaskConfig, pubsub.Selector{})
	x.requestList(c)
}

// requestList starts listing the executors on the host, which may block; the answer is a tasksListed.
func (x *exec) requestList(c actor.Context) {
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
		x.d.of(logExec).Error("find edgespan's executors on the host", zap.Error(l.err))
		x.timers.after(c, jitter(taskRetry), func() any { return listTasks{} })
		return
	}
	x.taskSet.RecordFound(l.ids)
	x.setTasks(c)
}

// drain reads the topics. It reads the source first and sends it last, as the bridge manager does.
func (x *exec) drain(c actor.Context) {
	sources := x.source.Drain()
	for _, ch := range x.desired.Drain() {
		switch ch.Kind {
		case pubsub.Created, pubsub.Modified:
			x.d.tape.Learn(ch.New) // what it prints may quote its environment
			x.taskSet.SetDesired(ch.Key, ch.New)
		case pubsub.Deleted:
			x.taskSet.RemoveDesired(ch.Key)
		}
	}
	for _, ch := range sources {
		if ch.Kind == pubsub.Created || ch.Kind == pubsub.Modified {
			x.taskSet.RecordPublished(ch.New.Generation, ch.New.Valid && !ch.New.Keep)
		}
	}
	if x.taskSet.Ready() {
		x.setTasks(c)
	}
}

// setTasks passes the current set of tasks to the machine, and stops the workers of all others.
func (x *exec) setTasks(c actor.Context) {
	tasks := x.taskSet.All()
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
	for id, pid := range x.workers {
		if _, busy := x.running[id]; !busy && !keep[id] {
			c.Stop(pid)
			delete(x.workers, id)
		}
	}
	x.step(c, task.Desired{At: time.Now(), Tasks: tasks})
}

func (x *exec) step(c actor.Context, e task.Event) {
	for _, do := range tape.Step(x.reel, &x.m, e) {
		x.d.census.Effect(c.Self().Id, do)
		x.do(c, do)
	}
	gone := false
	for _, s := range x.m.Changed() {
		if x.taskSet.UpdateStatus(s) {
			gone = true
		} else {
			x.publishStatus(s)
		}
	}
	if gone {
		x.setTasks(c)
		return
	}
	if swept, ok := x.taskSet.SweptGeneration(); ok {
		must(x.sweptPub.Publish("", "node", swept)) // publishing an equal value makes no event
	}
	x.scheduleTick(c)
}

// scheduleTick schedules a Tick at the time the machine asks for.
func (x *exec) scheduleTick(c actor.Context) {
	if x.tick != nil {
		x.tick.Stop()
	}
	x.token++
	at, ok := x.m.Next()
	if !ok {
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
	x.d.of(logExec).Info("parameter", zap.String("id", s.ID), zap.String("state", text), zap.String("why", s.Reason),
		zap.Int("attempts", s.Attempts))
	ev := event(nodeapi.EventState, s.ID, "", text)
	ev.Error = s.Reason
	x.d.recordEvent(ev)
}

// do sends a step to the task's child, and spawns the child if there is none.
func (x *exec) do(c actor.Context, do task.Do) {
	x.running[do.ID] = do
	if pid := x.workers[do.ID]; pid != nil {
		c.Send(pid, taskStep{do, x.taskSet.Config(do.ID)})
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
		if _, waits := x.waiting[h.id]; waits && x.workers[h.id] == nil {
			x.spawn(c, h.id)
		}
		return
	}
	x.workers[h.id] = h.pid
	if do, waits := x.waiting[h.id]; waits {
		delete(x.waiting, h.id)
		c.Send(h.pid, taskStep{do, x.taskSet.Config(h.id)})
		return
	}
	if do, lost := x.running[h.id]; lost {
		delete(x.running, h.id)
		x.step(c, task.Answered{At: time.Now(), ID: h.id, Seq: do.Seq, Found: task.Failed,
			Reason: fmt.Sprintf("%s: crashed", do.Step)})
	}
}
