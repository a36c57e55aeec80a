package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"

	"edgespan/actors/controller/nodes"
	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// commandTimeout is how long to wait for an answer of another replica.
const commandTimeout = 10 * time.Second

// Command runs an operator's command on one node, at the replica that has its stream.
func (c *Controller) Command(ctx context.Context, by fleetapi.Caller, name string, what fleetapi.Command) error {
	s := c.d.dir.nodeByName(name)
	if s == nil {
		return &ops.NotFoundError{What: fmt.Sprintf("node %q", name)}
	}
	if what == fleetapi.Forget {
		return c.d.forget(ctx, by, s)
	}
	late := time.Now().Add(commandTimeout)
	for {
		id, replica, moved := s.At()
		switch {
		case id == "":
			return fmt.Errorf("%s: %w: node %q not joined", what, fleetapi.ErrRefused, name)
		case replica == "" || replica == c.d.Replica:
			return c.d.command(ctx, by, s, what)
		}
		err := c.d.sendCommandUnless(ctx, late, moved, id, storage.RemoteCommand{From: c.d.Replica, By: by, What: what})
		if !errors.Is(err, errOtherReplica) {
			return err
		}
	}
}

// errOtherReplica reports that the replica that was asked no longer has the node's stream.
var errOtherReplica = errors.New("the node moved to another replica")

// sendCommandUnless sends a command to the replica that has a node's stream, and returns errOtherReplica if the stream
// moves before an answer: a replica that died, or lost the stream meanwhile, does not answer. The caller then sends the
// command to the new replica; it does no harm if the first one has already run it.
func (d *deps) sendCommandUnless(ctx context.Context, late time.Time, moved <-chan struct{}, id string,
	l storage.RemoteCommand) error {
	asks, cancel := context.WithDeadline(ctx, late)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-moved:
			cancel()
		case <-ended:
		}
	}()
	err := d.sendCommand(asks, id, l)
	if err == nil || errors.Is(err, fleetapi.ErrRefused) || ctx.Err() != nil || !time.Now().Before(late) {
		return err
	}
	select {
	case <-moved:
		return errOtherReplica
	default:
		return err
	}
}

// command runs a command on a node whose stream is here, or that is offline.
func (d *deps) command(ctx context.Context, by fleetapi.Caller, s *nodes.Handle, what fleetapi.Command) error {
	if what == fleetapi.AdoptImport {
		if err := d.adopt(ctx, by, s); err != nil {
			return err
		}
	}
	a, err := d.Request(ctx, s.Process(), nodes.Command{By: by, What: what})
	if err != nil {
		return err
	}
	return a.(nodes.CommandDone).Err
}

// adopt copies the objects that a node runs and its config lacks into the node's own layer.
func (d *deps) adopt(ctx context.Context, by fleetapi.Caller, s *nodes.Handle) error {
	a, err := d.Request(ctx, s.Process(), nodes.RequestRunning{})
	if err != nil {
		return err
	}
	r := a.(nodes.Running)
	if r.Err != nil {
		return r.Err
	}
	own := config.Object{}
	for _, text := range r.Removes {
		path, err := config.ParsePath(text)
		if err != nil {
			return fmt.Errorf("adopt: %w", err)
		}
		v, _ := config.Lookup(r.Document, path)
		at := own
		for _, key := range path[:len(path)-1] {
			below, ok := at[key].(config.Object)
			if !ok {
				below = config.Object{}
				at[key] = below
			}
			at = below
		}
		at[path[len(path)-1]] = v
	}
	name, _ := s.Names()
	return d.writes.Write(ctx, storage.WriteRequest{Request: fleetapi.WriteRequest{
		Caller: by, Write: ops.SetNodes{Overrides: config.Object{name: own}, Modify: true}, Message: "adopt what " + name +
			" runs",
	}}).Err
}

// sendCommand sends a command to the replica that has a node's stream, and waits for its answer.
func (d *deps) sendCommand(ctx context.Context, id string, l storage.RemoteCommand) error {
	_, err := d.askReplica(ctx, id, l)
	return err
}

func (d *deps) askReplica(ctx context.Context, id string, l storage.RemoteCommand) (answered storage.RemoteCommand,
	err error) {
	lease := d.LeaseID()
	if lease == 0 {
		return l, fmt.Errorf("%s: %w: this replica has no lease yet: try again", l.What, fleetapi.ErrBusy)
	}
	key := history.OutboxKey(id, uuid.NewString())
	answer := make(chan storage.RemoteCommand, 1)
	d.outbox.Store(key, answer)
	defer d.outbox.Delete(key)
	if _, err := d.Commit(ctx, kv.Txn{Then: []kv.Op{kv.PutLeased(key, storage.Encode(l), lease)}}); err != nil {
		return l, fmt.Errorf("%s: %w", l.What, err)
	}
	defer d.Saver.Add(storage.Save{Op: kv.Delete(key)})
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	select {
	case got := <-answer:
		if got.Refused != "" {
			return got, fmt.Errorf("%w: %s", fleetapi.ErrRefused, got.Refused)
		}
		return got, nil
	case <-ctx.Done():
		return l, fmt.Errorf("%s: %w: the replica with the node's stream, or the leader of the rollouts, does not answer: "+
			"try again", l.What, fleetapi.ErrBusy)
	}
}

// handleRemoteCommand handles a command between replicas: an answer that a caller here waits for, or a command for a
// node whose stream is here.
func (a *fleetActor) handleRemoteCommand(_ actor.Context, e kv.Entry, id string) {
	var l storage.RemoteCommand
	if json.Unmarshal(e.Value, &l) != nil {
		return
	}
	if waits, ok := a.d.outbox.Load(e.Key); ok {
		if l.Answered {
			select {
			case waits.(chan storage.RemoteCommand) <- l:
			default:
			}
		}
		return
	}
	s := a.d.dir.node(id)
	if l.Answered || s == nil || l.From == a.d.Replica {
		return
	}
	_, replica, _ := s.At()
	lease := a.d.LeaseID()
	if replica != a.d.Replica || lease == 0 {
		return
	}
	a.d.Leaf("mail", func() {
		ctx, cancel := context.WithTimeout(a.d.Context, commandTimeout)
		defer cancel()
		l.Answered = true
		if l.Query != nil {
			own := a.d.dir.events(*l.Query, longestEvents)
			l.Events = &own
		} else if err := a.d.command(ctx, l.By, s, l.What); err != nil {
			l.Refused = err.Error()
		}
		key := e.Key
		there := kv.Exists(key)
		a.d.Saver.Add(storage.Save{Op: kv.PutLeased(key, storage.Encode(l), lease), Compare: &there})
	})
}

// commandEvents is the command of a question for events; a replica of an older release refuses it.
const commandEvents fleetapi.Command = "events"

const (
	eventQuestions = 4               // to other replicas that are open at once
	longestEvents  = 64 << 10        // bytes of another replica's answer
	eventsTimeout  = 5 * time.Second // for it
)

// Events returns events of nodes: of those whose streams are here, and of others from their replicas. All replicas are
// asked for a node that is offline, since the last one that had its stream has its events.
func (c *Controller) Events(ctx context.Context, q fleetapi.EventQuery) (fleetapi.Events, error) {
	replica := ""
	if q.Node != "" {
		s := c.d.dir.nodeByName(q.Node)
		if s == nil {
			return fleetapi.Events{}, &ops.NotFoundError{What: fmt.Sprintf("node %q", q.Node)}
		}
		_, replica, _ = s.At()
	}
	out := c.d.dir.events(q, 0)
	if replica == c.d.Replica {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for other, id := range c.d.dir.otherReplicas(c.d.Replica) {
		if replica != "" && replica != other {
			continue
		}
		all.Go(func() {
			got, err := c.d.askEvents(ctx, id, q)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				out.Silent = append(out.Silent, other)
			}
			out.Events = append(out.Events, got.Events...)
		})
	}
	all.Wait()
	slices.Sort(out.Silent)
	out.Events = fleetapi.MergeEvents(out.Events, q.Last)
	return out, nil
}

// askEvents asks the replica of a node for events. Each question is a write to the store, so only some are open at
// once.
func (d *deps) askEvents(ctx context.Context, id string, q fleetapi.EventQuery) (fleetapi.Events, error) {
	select {
	case d.asking <- struct{}{}:
		defer func() { <-d.asking }()
	case <-ctx.Done():
		return fleetapi.Events{}, ctx.Err()
	}
	got, err := d.askReplica(ctx, id, storage.RemoteCommand{From: d.Replica, What: commandEvents, Query: &q})
	if err != nil || got.Events == nil {
		return fleetapi.Events{}, fmt.Errorf("%s: %w: no answer", commandEvents, fleetapi.ErrBusy)
	}
	return *got.Events, nil
}

// otherReplicas returns for each other replica that has streams of nodes the id of one of these.
func (d *directory) otherReplicas(own string) map[string]string {
	out := map[string]string{}
	for _, s := range d.handles() {
		if id, replica, _ := s.At(); replica != "" && replica != own {
			out[replica] = id
		}
	}
	return out
}

// events returns the collected events that a query selects, the newest ones that fit into a number of bytes; 0: any.
func (d *directory) events(q fleetapi.EventQuery, bytes int) fleetapi.Events {
	all := q.Select()
	for _, s := range d.handles() {
		if name, _ := s.Names(); q.Node == "" || q.Node == name {
			all.Add(name, s.Events())
		}
	}
	out := fleetapi.Events{Events: all.Newest()}
	for i := len(out.Events) - 1; i >= 0 && bytes > 0; i-- {
		if bytes -= len(storage.Encode(out.Events[i])); bytes <= 0 {
			out.Events = out.Events[i+1:]
		}
	}
	return out
}
