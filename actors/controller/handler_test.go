package controller

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/actors/controller/nodes"
	"edgespan/config/fleet/nodeproto"
)

// instant is a process that receives a message before the sender continues.
type instant struct{ take func(any) }

func (p instant) SendUserMessage(_ *actor.PID, m any) { p.take(m) }
func (p instant) SendSystemMessage(*actor.PID, any)   {}
func (p instant) Stop(*actor.PID)                     {}

// TestAStreamThatEndsAtOnceIsForgotten: the actor of a node ends a stream the moment it learns of it, as it does with
// one that is older than another. The end must be assigned to the right node.
func TestAStreamThatEndsAtOnceIsForgotten(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		n := r.join(c, "n1")
		handle := c.d.dir.node(n.id)
		stream := &fakeStream{n: n, id: 77, down: make(chan nodeproto.FromController, 10), done: make(chan struct{}),
			gone: make(chan struct{})}
		var heard []any
		pid, fresh := c.d.System.ProcessRegistry.Add(instant{func(m any) {
			heard = append(heard, m)
			if _, ok := m.(nodes.Connected); ok {
				c.Disconnected(stream, nil)
			}
		}}, "instant")
		if !fresh {
			t.Fatal("the name is taken")
		}
		real := handle.Process()
		handle.SetProcess(pid)
		c.Connected(stream, nodeproto.Hello{Node: n.id, Name: "n1"})
		if len(heard) != 2 || heard[1] != (nodes.Disconnected{Stream: stream}) {
			t.Errorf("the node's actor heard %v", heard)
		}
		if c.handleOf(stream) != nil {
			t.Error("the stream is kept for ever")
		}
		if has, _ := handle.Connection(); has != nil {
			t.Error("the node has it still")
		}
		handle.SetProcess(real)
	})
}
