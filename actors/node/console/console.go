package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/actors/node/census"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/pubsub/loglevel"
	"edgespan/pubsub/shellproto"
)

// Console answers debug shells.
type Console struct {
	Census *census.Census
	System *actor.ActorSystem
	Topics *api.Topics
	Log    *zap.Logger
	// Events emits stored and new events.
	Events func(context.Context, nodeapi.EventQuery, func(nodeapi.Event) error) error
	// Record stores an event.
	Record func(nodeapi.Event)
	// Reconcile makes the network of a number compare the host with its desired state, and Reprobe makes one send its
	// probes now.
	Reconcile func(number int)
	Reprobe   func(network string)
	Levels    *loglevel.Levels
	Faults    Faults // nil: the daemon was started without them

	streams atomic.Int64 // under way
}

// Faults injects faults for a while.
type Faults interface {
	// Kinds returns the kinds of fault, and whether each is of one network.
	Kinds() map[string]bool
	// Inject begins a fault. network is "" for one of the whole node. It ends by itself.
	Inject(kind, network string, lasts time.Duration) error
	// List describes the faults that last.
	List() []string
	// Clear ends all, and returns how many they were.
	Clear() int
}

// Bounds of what one answer has.
const (
	actorsAtOnce = 2000
	eventsBefore = 20
	// maxStreams bounds the streams of all shells together: each costs every publisher of its topic a little.
	maxStreams = 64
	// streamed is how many items of a stream wait between the actors and the shell.
	streamed = 256
	// gathering is how long the first of several items waits for others.
	gathering = 50 * time.Millisecond
	// askTimeout is how long an actor may take to show its state.
	askTimeout = 2 * time.Second
	// stateLimit is the longest state in octets that is sent, and stateSizes the sizes that are tried for it.
	stateLimit = 512 << 10
)

var stateSizes = []int{10_000, 2_000, 200}

// Do carries out an operation.
func (c *Console) Do(ctx context.Context, who shellproto.Who, r shellproto.Request, emit shellproto.Emit) error {
	args := append(slices.Clone(r.Args), "", "", "")
	if r.Streams() {
		defer c.streams.Add(-1)
		if c.streams.Add(1) > maxStreams {
			return shellproto.Failf(shellproto.ExitError, "%d streams are under way in all shells: end one first", maxStreams)
		}
	}
	switch r.Op {
	case "tree":
		return c.tree(args[0], emit)
	case "inspect":
		return c.inspect(ctx, args[0], emit)
	case "tail":
		return c.tail(ctx, args[0], emit)
	case "watch":
		return c.watch(ctx, args[0], args[1], emit)
	case "events":
		q := nodeapi.EventQuery{Kind: args[0], Last: eventsBefore, Follow: true}
		return c.Events(ctx, q, func(e nodeapi.Event) error { return emit(e, 0) })
	case "trace":
		return c.trace(ctx, args[0], emit)
	case "names":
		return c.names(args[0], args[1], emit)
	}
	text, object, err := c.change(who, r.Op, args)
	if r.Op != "fault" || args[0] != "list" || err != nil { // that only reads
		c.audit(who, r, object, err)
	}
	if err != nil {
		return err
	}
	return emit(shellproto.Done{Text: text}, 0)
}

// audit records who changed what, or tried to.
func (c *Console) audit(who shellproto.Who, r shellproto.Request, object string, err error) {
	command := strings.TrimSpace(r.Op + " " + strings.Join(r.Args, " "))
	c.Log.Warn("shell command", zap.String("command", command), zap.Stringer("by", who), zap.Error(err))
	e := nodeapi.Event{Time: time.Now(), Kind: nodeapi.EventShell, Object: object, Text: fmt.Sprintf("%.200s", command)}
	e.Cause.By = who.String()
	if err != nil {
		e.Error = err.Error()
	}
	c.Record(e)
}

// change does what changes something, and returns what it did and to what.
func (c *Console) change(who shellproto.Who, op string, args []string) (text, object string, err error) {
	switch op {
	case "reconcile", "reprobe":
		id, number, err := c.network(args[0])
		if err != nil {
			return "", "node", err
		}
		if op == "reconcile" {
			c.Reconcile(number)
			return "network " + id + " compares the host with its desired state now", "ni/" + id, nil
		}
		c.Reprobe(id)
		return "network " + id + " sends its probes now", "ni/" + id, nil
	case "restart":
		id, err := c.actor(args[0])
		if err != nil {
			return "", "node", err
		}
		err = c.Census.Crash(c.System, id, "restart requested by "+who.String())
		if errors.Is(err, census.ErrVital) {
			err = shellproto.Failf(shellproto.ExitConflict,
				"%s: without it the daemon ends: 'systemctl restart edgespan' restarts all, and no packet is lost", id)
		}
		return "actor " + id + " restarts", "actor/" + id, err
	case "loglevel":
		text, err := c.setLevel(who, args)
		return text, "node", err
	case "fault":
		return c.fault(args)
	}
	return "", "node", shellproto.Failf(shellproto.ExitUsage, "%s: no command of the daemon's version", op)
}

func (c *Console) setLevel(who shellproto.Who, args []string) (string, error) {
	to := loglevel.Change{Subsystem: args[0], Level: args[1], By: who.String()}
	if args[2] != "" {
		lasts, err := time.ParseDuration(args[2])
		if err != nil || lasts <= 0 {
			return "", shellproto.Failf(shellproto.ExitUsage, "%.40q: no duration: must be such as 10m", args[2])
		}
		to.For = lasts
	}
	if field, problem := c.Levels.Check(to); field != "" {
		return "", shellproto.Failf(shellproto.ExitUsage, "%s: %s", field, problem)
	}
	c.Levels.Set(to)
	if to.Level == loglevel.Reset {
		return "the level of " + to.Subsystem + " is that of the config again", nil
	}
	if to.For == 0 {
		to.For = loglevel.DefaultFor
	}
	return fmt.Sprintf("%s logs at level %s for %v", to.Subsystem, to.Level, to.For), nil
}

func (c *Console) fault(args []string) (text, object string, err error) {
	if c.Faults == nil {
		return "", "node", shellproto.Failf(shellproto.ExitConflict,
			"the daemon was started without --allow-faults: it injects none")
	}
	switch args[0] {
	case "list":
		if all := c.Faults.List(); len(all) > 0 {
			return strings.Join(all, "; "), "node", nil
		}
		return "no fault lasts", "node", nil
	case "clear":
		return fmt.Sprintf("%d faults ended", c.Faults.Clear()), "node", nil
	}
	kind, lasts, object := args[0], args[1], "node"
	ofNetwork, known := c.Faults.Kinds()[kind]
	if !known {
		return "", object, shellproto.Failf(shellproto.ExitUsage, "%.40q: no fault: must be list, clear or one of %s", kind,
			strings.Join(sortedKeys(c.Faults.Kinds()), ", "))
	}
	network := ""
	if ofNetwork {
		if network, _, err = c.network(args[1]); err != nil {
			return "", object, err
		}
		object, lasts = "ni/"+network, args[2]
	}
	d, err := time.ParseDuration(lasts)
	if err != nil {
		return "", object, shellproto.Failf(shellproto.ExitUsage, "%.40q: no duration: must be such as 30s", lasts)
	}
	if err := c.Faults.Inject(kind, network, d); err != nil {
		return "", object, shellproto.Failf(shellproto.ExitUsage, "%v", err)
	}
	return fmt.Sprintf("%s: injected, ends by itself after %v", kind, d), object, nil
}

// tree shows the actors whose path begins with one, or all.
func (c *Console) tree(of string, emit shellproto.Emit) error {
	if of != "" {
		var err error
		if of, err = c.actor(of); err != nil {
			return err
		}
	}
	all := make([]shellproto.Actor, 0, actorsAtOnce)
	for _, a := range c.Census.Activities() {
		if of == "" || a.ID == of || strings.HasPrefix(a.ID, of+"/") {
			all = append(all, shown(a))
		}
	}
	slices.SortFunc(all, func(a, b shellproto.Actor) int { return strings.Compare(a.ID, b.ID) })
	for part := range slices.Chunk(all, actorsAtOnce) {
		if err := emit(part, 0); err != nil {
			return err
		}
	}
	return nil
}

func shown(a census.Activity) shellproto.Actor {
	return shellproto.Actor{ID: a.ID, State: a.State, Crashes: a.Crashes, Last: a.Last, LastAt: a.LastAt, Next: a.Next,
		Messages: a.Messages, Waiting: a.Waiting, Oldest: a.Oldest, Now: a.Now, NowSince: a.For}
}

func (c *Console) inspect(ctx context.Context, name string, emit shellproto.Emit) error {
	id, err := c.actor(name)
	if err != nil {
		return err
	}
	var out shellproto.Inspection
	if a, there := c.Census.Activity(id); there {
		out.Actor = shown(a)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, size := range stateSizes {
		state, err := c.Census.Ask(ctx, c.System, id, size)
		switch {
		case errors.Is(err, census.ErrBusy):
			return err
		case err != nil:
			return shellproto.Failf(shellproto.ExitTimeout, "%s: %v", id, err)
		}
		if out.State, err = json.Marshal(state); err != nil {
			return fmt.Errorf("show the state: %w", err)
		}
		if len(out.State) <= stateLimit {
			break
		}
	}
	return emit(out, 0)
}

func (c *Console) tail(ctx context.Context, name string, emit shellproto.Emit) error {
	id, err := c.actor(name)
	if err != nil {
		return err
	}
	return stream(ctx, emit, func(add func(shellproto.TailItem)) (func() uint64, func()) {
		return c.Census.Follow(id, add)
	})
}

func (c *Console) trace(ctx context.Context, name string, emit shellproto.Emit) error {
	id := ""
	if name != "" {
		var err error
		if id, _, err = c.network(name); err != nil {
			return err
		}
	}
	return stream(ctx, emit, func(add func(shellproto.TraceItem)) (func() uint64, func()) {
		return c.Census.Trace(id, add)
	})
}

// stream passes items on that actors add, without ever making them wait.
func stream[T any](ctx context.Context, emit shellproto.Emit, follow func(add func(T)) (func() uint64, func())) error {
	items := make(chan T, streamed)
	var lost atomic.Uint64
	dropped, stop := follow(func(i T) {
		select {
		case items <- i:
		default:
			lost.Add(1)
		}
	})
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case first := <-items:
			together := []T{first}
			// To wake the shell for each item would cost more than the items.
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(gathering):
			}
			for len(items) > 0 { // only this goroutine receives them
				together = append(together, <-items)
			}
			for _, i := range together {
				if err := emit(i, dropped()+lost.Swap(0)); err != nil {
					return err
				}
			}
		}
	}
}
