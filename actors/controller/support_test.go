package controller

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/relay"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/relayflow"
	"edgespan/config/httpapi/fleetapi"
)

// relaying is a node's stream that answers relays, and drops everything else.
type relaying struct {
	id   uint64
	at   *Controller
	node *relay.Server
	took chan nodeproto.Relay // without a node
}

func (s *relaying) ID() uint64 { return s.id }
func (s *relaying) End(string) {}

func (s *relaying) Send(m nodeproto.FromController) error {
	if r, ok := m.(nodeproto.Relay); ok && s.node != nil {
		go s.node.Received(r)
	} else if ok {
		s.took <- r
	}
	return nil
}

// up is the node's end of it.
type up struct{ s *relaying }

func (u up) Send(m nodeproto.FromNode) error {
	u.s.at.Received(u.s, m)
	return nil
}

// relay connects a node whose relays have these kinds; nil: it has no relays that answer.
func (r *rig) relay(c *Controller, n *fakeNode, kinds map[string]relay.Handler) *relaying {
	s := &relaying{id: r.streams.Add(1), at: c, took: make(chan nodeproto.Relay, 16)}
	if kinds != nil {
		s.node = &relay.Server{Kinds: kinds, Log: zap.NewNop()}
		s.node.Up(up{s})
		r.Cleanup(s.node.Down)
	}
	c.Connected(s, nodeproto.Hello{Node: n.id, Name: n.name, Software: n.software,
		Capabilities: []string{nodeproto.CanRelay}})
	r.settled()
	return s
}

func TestAnArchiveIsPassedOnAsItComes(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("one")
		n := r.join(c, "edge-1")
		sent := bytes.Repeat([]byte("archive "), 4*relayflow.Window*relayflow.PieceSize/8)
		asked := ""
		r.relay(c, n, map[string]relay.Handler{nodeproto.RelaySupport: func(_ context.Context, argument []byte,
			with io.ReadWriter) error {
			asked = string(argument)
			_, err := with.Write(sent)
			return err
		}})
		a, err := c.Support(r.Context(), "edge-1", nodeproto.SupportRequest{By: "ann", Flows: true})
		if err != nil {
			r.Fatal(err)
		}
		if _, err := c.Support(r.Context(), "edge-1", nodeproto.SupportRequest{}); !errors.Is(err, fleetapi.ErrBusy) {
			r.Errorf("a second one: %v", err)
		}
		var got bytes.Buffer
		if err := a.Write(r.Context(), &got); err != nil || !bytes.Equal(got.Bytes(), sent) {
			r.Errorf("%d of %d bytes, %v", got.Len(), len(sent), err)
		}
		if a.Close(); asked != `{"flows":true,"by":"ann"}` || c.d.relays.Count() != 0 {
			r.Errorf("%s, %d open", asked, c.d.relays.Count())
		}
	})
}

func TestWhyThereIsNoArchive(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("one")
		n := r.join(c, "edge-1")
		refused := func(name, want string) {
			r.Helper()
			_, err := c.Support(r.Context(), name, nodeproto.SupportRequest{})
			if !errors.Is(err, fleetapi.ErrRefused) || !strings.Contains(err.Error(), want) {
				r.Errorf("want %q, got %v", want, err)
			}
		}
		_, err := c.Support(r.Context(), "edge-9", nodeproto.SupportRequest{})
		var none *ops.NotFoundError
		if !errors.As(err, &none) {
			r.Errorf("%v", err)
		}
		refused("edge-1", "offline")
		n.connect(c) // of an older version
		r.settled()
		refused("edge-1", "not supported by the node's version")
		r.relay(c, n, map[string]relay.Handler{"other": nil})
		refused("edge-1", `the node says: "support" is not supported by this version`)
		r.relay(c, n, map[string]relay.Handler{nodeproto.RelaySupport: func(context.Context, []byte, io.ReadWriter) error {
			return errors.New("no space")
		}})
		refused("edge-1", "the node says: no space")
		silent := r.relay(c, n, nil)
		refused("edge-1", "sent nothing within 1m0s")
		if first, last := <-silent.took, <-silent.took; first.Kind != nodeproto.RelaySupport || !last.End {
			r.Errorf("the node got %+v, %+v", first, last)
		}
	})
}

func TestANodeOfAnotherReplicaIsNamed(t *testing.T) {
	onRig(t, func(r *rig) {
		one, two := r.start("one"), r.start("two")
		r.node(one, "edge-1")
		r.settled()
		_, err := two.Support(r.Context(), "edge-1", nodeproto.SupportRequest{})
		if !errors.Is(err, fleetapi.ErrRefused) || !strings.Contains(err.Error(), "connected to replica one: ask that one") {
			r.Errorf("%v", err)
		}
	})
}

// A node that sends without an end, more than it may, or nothing more is cut off.
func TestAHostileNodesArchiveEnds(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("one")
		n := r.join(c, "edge-1")
		r.relay(c, n, map[string]relay.Handler{nodeproto.RelaySupport: func(_ context.Context, _ []byte,
			with io.ReadWriter) error {
			for {
				if _, err := with.Write(make([]byte, relayflow.PieceSize)); err != nil {
					return err
				}
			}
		}})
		write := func() (int, error) {
			a, err := c.Support(r.Context(), "edge-1", nodeproto.SupportRequest{})
			if err != nil {
				r.Fatal(err)
			}
			defer a.Close()
			var got counter
			err = a.Write(r.Context(), &got)
			return int(got), err
		}
		if n, err := write(); n > maxArchive || err == nil || !strings.Contains(err.Error(), "more than") {
			r.Errorf("endless: %d bytes, %v", n, err)
		}
		r.settled()
		a, err := c.Support(r.Context(), "edge-1", nodeproto.SupportRequest{})
		if err != nil {
			r.Fatal(err)
		}
		began := time.Now()
		err = a.Write(r.Context(), slowReader(10*time.Second)) // a caller that reads slowly
		a.Close()
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > archiveTimeout+10*time.Second {
			r.Errorf("a slow caller: %v after %v", err, took)
		}
		r.relay(c, n, map[string]relay.Handler{nodeproto.RelaySupport: func(ctx context.Context, _ []byte,
			with io.ReadWriter) error {
			_, _ = with.Write([]byte("begin"))
			<-ctx.Done()
			return ctx.Err()
		}})
		if n, err := write(); n != 5 || !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("silent: %d bytes, %v", n, err)
		}
		forged := r.relay(c, n, nil)
		go func() {
			id := (<-forged.took).ID
			c.Received(forged, nodeproto.Relay{ID: id, Data: []byte("x")})
			c.Received(forged, nodeproto.Relay{ID: id, Data: make([]byte, relayflow.PieceSize+1)})
		}()
		a, err = c.Support(r.Context(), "edge-1", nodeproto.SupportRequest{})
		if err == nil { // it has read a piece before the flood
			err = a.Write(r.Context(), io.Discard)
			a.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "more than it was allowed") {
			r.Errorf("a flood: %v", err)
		}
		if open := c.d.relays.Count(); open != 0 {
			r.Errorf("%d open", open)
		}
	})
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// slowReader is a caller that takes this time for each write.
type slowReader time.Duration

func (s slowReader) Write(p []byte) (int, error) { time.Sleep(time.Duration(s)); return len(p), nil }
