package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	lease := d.LeaseID()
	if lease == 0 {
		return fmt.Errorf("%s: %w: this replica has no lease yet: try again", l.What, fleetapi.ErrBusy)
	}
	key := history.OutboxKey(id, uuid.NewString())
	answer := make(chan storage.RemoteCommand, 1)
	d.outbox.Store(key, answer)
	defer d.outbox.Delete(key)
	if _, err := d.Commit(ctx, kv.Txn{Then: []kv.Op{kv.PutLeased(key, storage.Encode(l), lease)}}); err != nil {
		return fmt.Errorf("%s: %w", l.What, err)
	}
	defer d.Saver.Add(storage.Save{Op: kv.Delete(key)})
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	select {
	case got := <-answer:
		if got.Refused != "" {
			return fmt.Errorf("%w: %s", fleetapi.ErrRefused, got.Refused)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: the replica with the node's stream, or the leader of the rollouts, does not answer: try "+
			"again", l.What,
			fleetapi.ErrBusy)
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
		if err := a.d.command(ctx, l.By, s, l.What); err != nil {
			l.Refused = err.Error()
		}
		key := e.Key
		there := kv.Exists(key)
		a.d.Saver.Add(storage.Save{Op: kv.PutLeased(key, storage.Encode(l), lease), Compare: &there})
	})
}
