package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"edgespan/config/fleet"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/fleetapi"
)

// onThree runs a test with replicas a, b and c. A node is connected to b, whose connection to the store the test can
// cut.
func onThree(t *testing.T, f func(r *rig, b *severed, n *fakeNode)) {
	t.Helper()
	onRig(t, func(r *rig) {
		way := &severed{memory: r.store}
		r.change = func(o *Options) {
			if o.Replica == "b" {
				o.Store = way
			}
		}
		r.start("a")
		r.start("b")
		r.start("c")
		n := r.node(r.replicas["b"], "n1")
		r.pass(time.Minute)
		r.wants(r.replicas["b"], "n1", string(fleet.InSync))
		r.wants(r.replicas["a"], "n1", string(fleet.OtherReplica))
		f(r, way, n)
		way.cut.Store(false)
		r.pass(time.Minute)
	})
}

// commands sends a command to a replica and returns how long the answer took.
func (r *rig) commands(c *Controller, what fleetapi.Command) (took time.Duration, err error) {
	begun := time.Now()
	err = c.Command(r.Context(), alice, "n1", what)
	return time.Since(begun), err
}

// TestACommandFollowsANodeThatMoves sends a command while the node's replica has just died: the replica that the node
// connects to next carries it out.
func TestACommandFollowsANodeThatMoves(t *testing.T) {
	for _, to := range []string{"c", "a"} { // to another replica, and to the one that got the command
		t.Run(to, func(t *testing.T) {
			onThree(t, func(r *rig, b *severed, n *fakeNode) {
				n.mu.Lock()
				n.held = &nodeproto.Held{By: "bob", Since: time.Now()}
				n.mu.Unlock()
				r.pass(10 * time.Second)
				b.cut.Store(true)
				n.lose()
				go func() {
					time.Sleep(500 * time.Millisecond)
					n.connect(r.replicas[to])
				}()
				took, err := r.commands(r.replicas["a"], fleetapi.Release)
				if err != nil || took > time.Second {
					t.Errorf("%v after %v", err, took)
				}
				r.pass(10 * time.Second)
				n.mu.Lock()
				defer n.mu.Unlock()
				if n.held != nil || n.heard["nodeproto.Release"] != 1 {
					t.Errorf("the node is held: %v, and was released %d times", n.held != nil, n.heard["nodeproto.Release"])
				}
			})
		})
	}
}

// TestACommandForANodeThatHasJustGone sends a command to a replica that has lost the node's stream and could not record
// it: once the replica's lease has ended the node is offline, and the command is kept.
func TestACommandForANodeThatHasJustGone(t *testing.T) {
	onThree(t, func(r *rig, b *severed, n *fakeNode) {
		b.cut.Store(true)
		n.cut()
		r.pass(2 * time.Second)
		if took, err := r.commands(r.replicas["a"], fleetapi.Retry); err != nil || took >= commandTimeout {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestACommandForAReplicaThatHangs has no other replica to turn to: the command fails in time.
func TestACommandForAReplicaThatHangs(t *testing.T) {
	onThree(t, func(r *rig, b *severed, n *fakeNode) {
		b.deaf.Store(true)
		took, err := r.commands(r.replicas["a"], fleetapi.Retry)
		if !errors.Is(err, fleetapi.ErrBusy) || took != commandTimeout {
			t.Errorf("%v after %v", err, took)
		}
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if err := r.replicas["a"].Command(ctx, alice, "n1", fleetapi.Retry); !errors.Is(err, fleetapi.ErrBusy) {
			t.Error(err)
		}
		b.deaf.Store(false)
	})
}

// A renewal that an operator requests reaches the node through whichever replica has its stream. The answer says that
// an offline node is offline; nothing waits for it.
func TestANodeRenewsItsCertificateOnDemand(t *testing.T) {
	onThree(t, func(r *rig, _ *severed, n *fakeNode) {
		for _, asked := range []string{"b", "a"} {
			if _, err := r.commands(r.replicas[asked], fleetapi.Renew); err != nil {
				t.Errorf("asked at %s: %v", asked, err)
			}
		}
		r.settled()
		n.mu.Lock()
		reported := n.heard["nodeproto.Renew"]
		n.mu.Unlock()
		if reported != 2 {
			t.Errorf("the node was told %d times, want 2", reported)
		}
		n.cut()
		r.pass(time.Minute)
		if _, err := r.commands(r.replicas["b"], fleetapi.Renew); !errors.Is(err, fleetapi.ErrRefused) {
			t.Errorf("of a node that is offline: %v", err)
		}
	})
}
