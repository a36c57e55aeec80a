package controller

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"edgespan/actors/controller/nodes"
	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/kv"
)

// spent counts what the store has to write to some keys.
type spent struct {
	mu            sync.Mutex
	writes, bytes int
	largest       int
}

// watched counts what is written below a prefix until the test ends.
func (r *rig) watched(p kv.Prefix) (s *spent, stop func()) {
	s = &spent{}
	ctx, stop := context.WithCancel(r.Context())
	_, at, _ := r.store.Get(ctx, "x")
	go r.store.Watch(ctx, p, at, func(b kv.Batch) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range b.Events {
			s.writes++
			s.bytes += len(e.Entry.Value)
			s.largest = max(s.largest, len(e.Entry.Value))
		}
		return nil
	})
	return s, stop
}

func (s *spent) got() (writes, bytes, largest int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes, s.bytes, s.largest
}

// say makes a node send a message 20 times a second, which is the rate that its stream allows.
func (r *rig) say(c *Controller, n *fakeNode, seconds int, word func(i int) nodeproto.FromNode) {
	for i := range seconds * 20 {
		n.mu.Lock()
		s := n.stream
		n.mu.Unlock()
		c.Received(s, word(i))
		time.Sleep(50 * time.Millisecond)
	}
	r.settled()
}

// A hostile node answers pushes that it never received, each time about another config. The rate at which this makes
// the store write is limited, and the node's record stays small enough for the store.
func TestWhatANodeSaysOfPushesIsBounded(t *testing.T) {
	const seconds = 20
	for name, word := range map[string]func(i int) nodeproto.Result{
		"digests": func(i int) nodeproto.Result {
			return nodeproto.Result{Attempt: 1, MD5: fmt.Sprintf("%032d", i), Outcome: nodeproto.Rejected}
		},
		"words": func(i int) nodeproto.Result {
			return nodeproto.Result{Attempt: 1, MD5: fmt.Sprintf("%032d", i), Outcome: nodeproto.Unhealthy,
				Faults: config.Faults{{Path: []string{"x"}, Problem: strings.Repeat("w", 100_000)}}}
		},
		"digests that are none": func(i int) nodeproto.Result {
			return nodeproto.Result{Attempt: 1, MD5: strings.Repeat("y", 900_000) + fmt.Sprint(i), Outcome: nodeproto.Rejected}
		},
		"attempts": func(i int) nodeproto.Result {
			return nodeproto.Result{Attempt: uint64(i), MD5: fmt.Sprintf("%032d", i), Outcome: nodeproto.Unconfirmed}
		},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				core, logs := observer.New(zap.InfoLevel)
				r.change = func(o *Options) { o.Log = zap.New(core) }
				a := r.start("a")
				r.synced(a, "n1")
				r.network(a, `{"sysParams":{"managedConfig":true},"envParams":{"A":"3"}}`)
				r.pass(time.Minute)
				r.wants(a, "n1", string(fleet.InSync))
				logs.TakeAll()
				s, stop := r.watched(history.InPushes)
				defer stop()
				r.say(a, r.nodes["n1"], seconds, func(i int) nodeproto.FromNode { return word(i) })
				if writes, bytes, _ := s.got(); writes > storage.WritesAtOnce+seconds*storage.WritesPace ||
					bytes > storage.BytesAtOnce+seconds*nodes.ReportPace+150<<10 {
					t.Errorf("%d writes of %d bytes in %d seconds", writes, bytes, seconds)
				}
				if n := logs.Len(); n > nodes.MaxLines {
					t.Errorf("%d lines", n)
				}
				// An operator's change arrives all the same.
				r.network(a, `{"sysParams":{"managedConfig":true},"envParams":{"A":"4"}}`)
				r.pass(time.Minute)
				r.wants(a, "n1", string(fleet.InSync))
				if n := r.nodes["n1"]; !contains(n.doc, `"A": "4"`) {
					t.Errorf("it runs %s", n.doc)
				}
			})
		})
	}
}

// A node that reports a local hold on and off gets its config again after an operator ended a local config, and not
// with each report.
func TestALocalConfigThatEndsAgainAndAgain(t *testing.T) {
	onRig(t, func(r *rig) {
		a := r.start("a")
		r.synced(a, "n1")
		n := r.nodes["n1"]
		r.pass(time.Minute)
		before, _ := n.got()
		r.say(a, n, 60, func(i int) nodeproto.FromNode {
			n.mu.Lock()
			defer n.mu.Unlock()
			rep := n.report()
			rep.MD5 = strings.Repeat("0", 32)
			if i%2 == 0 {
				rep.Held = &nodeproto.Held{By: fmt.Sprint("eva", i)}
			}
			return rep
		})
		if after, _ := n.got(); after-before > 6 || after == before {
			t.Errorf("%d pushes in a minute", after-before)
		}
	})
}

// A node that reports other versions each time has its config computed as rarely as the rule says; an upgraded node, at
// once.
func TestVersionsThatFlap(t *testing.T) {
	onRig(t, func(r *rig) {
		r.base.docs["RELEASE_M21"] = `{"sysParams":{"managedConfig":true},"envParams":{"A":"21"}}`
		a := r.start("a")
		r.synced(a, "n1")
		n := r.nodes["n1"]
		r.pass(2 * time.Hour)
		n.mu.Lock()
		n.software = "RELEASE_M21"
		n.mu.Unlock()
		n.connect(a)
		r.pass(time.Second)
		if !contains(n.doc, `"A": "21"`) {
			t.Errorf("a second after its upgrade it runs %s", n.doc)
		}
		r.pass(2 * time.Hour)
		s, stop := r.watched(history.InGenerations)
		defer stop()
		r.say(a, n, 120, func(i int) nodeproto.FromNode {
			n.mu.Lock()
			defer n.mu.Unlock()
			rep := n.report()
			rep.Software = []string{"RELEASE_M20", "RELEASE_M21"}[i%2]
			return rep
		})
		if writes, _, _ := s.got(); writes > 6 || writes == 0 {
			t.Errorf("%d generations in two minutes", writes)
		}
	})
}

// A record that the store refuses becomes one that it accepts.
func TestAMemoryThatIsTooLargeGetsSmaller(t *testing.T) {
	onRig(t, func(r *rig) {
		a := r.start("a")
		r.synced(a, "n1")
		n := r.nodes["n1"]
		r.stop("a")
		e, _, _ := r.store.Get(r.Context(), history.PushKey(n.id))
		m, err := fleet.ParseMemory(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		put := func() kv.Txn {
			return kv.Txn{Then: []kv.Op{kv.Put(history.PushKey(n.id), storage.Encode(m))}}
		}
		for i := range 8 { // as nodes could make it in earlier releases
			m.Failures = append(m.Failures,
				fleet.ConfigFailure{Digest: fleet.Digest{Config: fmt.Sprintf("%032d", i)}, Attempt: 1, For: m.Push.For})
		}
		m.Failures[3].Why = strings.Repeat("w", kv.MaxSize-put().Size()-10)
		if _, err := r.store.Commit(r.Context(), put()); err != nil {
			t.Fatal(err)
		}
		a = r.start("a")
		n.connect(a)
		r.pass(time.Second)
		r.network(a, `{"sysParams":{"managedConfig":true},"envParams":{"A":"5"}}`)
		r.pass(5 * time.Minute)
		r.wants(a, "n1", string(fleet.InSync))
		if !contains(n.doc, `"A": "5"`) {
			t.Errorf("it runs %.100s", n.doc)
		}
	})
}
