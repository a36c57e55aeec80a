package field

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/integration/soak/guest"
)

// An agent is the guest's end of a line.
type agent struct {
	conn net.Conn
	out  *json.Encoder
	in   *json.Decoder
}

// lined returns a machine with a line, and the agent at its other end.
func lined(t *testing.T) (*machine, agent) {
	t.Helper()
	near, far := net.Pipe()
	a := agent{far, json.NewEncoder(far), json.NewDecoder(far)}
	go a.out.Encode(guest.Message{Op: "out", Data: agentReady})
	l, err := greet(context.Background(), near)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.cut)
	return &machine{node: 1, line: l}, a
}

func (a agent) hear(t *testing.T) (m guest.Message) {
	t.Helper()
	if err := a.in.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestALineRunsCommands(t *testing.T) {
	m, a := lined(t)
	go func() {
		asked := a.hear(t)
		a.out.Encode(guest.Message{Op: "out", ID: asked.ID, Data: strings.Join(asked.Argv, " ")})
		a.out.Encode(guest.Message{Op: "exit", ID: asked.ID, Code: 3})
	}()
	if got, err := m.run(t.Context(), "echo", "x"); err != nil || got.Code != 3 || got.Out != "echo x" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A person who ends the soak does not wait for a machine that does not boot.
func TestWaitingForAnAgentEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		if _, err := greet(ctx, near); !errors.Is(err, context.Canceled) || time.Since(begin) != time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

// What an agent ran that has started again will never tell its end: who waits for it must not wait for ever.
func TestAnAgentStartsAgain(t *testing.T) {
	m, a := lined(t)
	go func() {
		a.hear(t)
		a.out.Encode(guest.Message{Op: "out", Data: agentReady})
	}()
	if _, err := m.run(t.Context(), "sleep", "9"); !errors.Is(err, errCut) {
		t.Error(err)
	}
	go func() { a.out.Encode(guest.Message{Op: "exit", ID: a.hear(t).ID}) }()
	if _, err := m.run(t.Context(), "true"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A guest that hangs holds up no one for ever: it takes nothing, or takes a script and does not end it.
func TestAGuestThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := lined(t)
		if _, err := m.sh(t.Context(), "true"); !errors.Is(err, errCut) {
			t.Errorf("it takes nothing: %v", err)
		}
		m, a := lined(t)
		go func() {
			for a.in.Decode(new(guest.Message)) == nil {
			}
		}()
		if _, err := m.sh(t.Context(), "true"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ends nothing: %v", err)
		}
		m.current().cut()
	})
}
