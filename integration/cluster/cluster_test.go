package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgespan/config/kv"
	"edgespan/platform/store/backend"
	"edgespan/platform/store/conformance"
	"edgespan/platform/store/etcd"
)

// TestConformance runs the complete suite that every backend passes, on three members that sync.
func TestConformance(t *testing.T) {
	c := begin(t)
	conformance.Run(t, func(t *testing.T) conformance.Fixture {
		inner := &cluster{TB: t, members: c.members}
		return conformance.Fixture{Store: inner.open(fmt.Sprint("fleet-", c.fleets.Add(1))), Clock: backend.Wall{},
			Advance: time.Sleep}
	}, 10)
}

// Members are killed one after the other while writers write and a watcher watches: a follower, the leader, and then
// each of the three, so that every client loses the member that it uses. No acknowledged write is lost, the watcher
// sees every event once and in order, and writes continue with two of three.
func TestKillsWhileWritersWrite(t *testing.T) {
	c := begin(t)
	w := c.work("fleet", 3)
	w.goOn(20)
	for i := range 2 + len(c.members) {
		leader, m := c.leader(), c.follower()
		switch {
		case i == 1:
			m = leader
		case i > 1:
			m = c.members[i-2]
		}
		c.kill(m)
		killed := time.Now()
		w.goOn(20)
		t.Logf("%s was killed, a leader: %v; every writer has 20 more after %s", m.name, m == leader,
			time.Since(killed).Round(10*time.Millisecond))
		c.leader()
		c.start(m)
		c.answers(m)
	}
	w.finish()
}

// A leader that hangs closes no connection: writes continue all the same, and so does the watch.
func TestALeaderThatHangs(t *testing.T) {
	c := begin(t)
	w := c.work("fleet", 3)
	w.goOn(20)
	m := c.leader()
	c.signal(m, syscall.SIGSTOP)
	hangs := time.Now()
	w.goOn(5)
	t.Logf("every writer has 5 more after %s", time.Since(hangs).Round(10*time.Millisecond))
	c.signal(m, syscall.SIGCONT)
	c.answers(m)
	w.finish()
}

// With one member of three nothing can be written or read: a call ends by its deadline and reports that, a watch stays
// open and silent. All continue once a second member is back.
func TestAMinorityWritesNothing(t *testing.T) {
	c := begin(t)
	w := c.work("fleet", 2)
	w.goOn(10)
	first, second := c.leader(), c.follower()
	c.kill(first)
	w.goOn(10)
	c.kill(second)
	s := w.store
	const deadline = 3 * time.Second
	before := 0
	for i, call := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"get", func(ctx context.Context) error { _, _, err := s.Get(ctx, "alone"); return err }},
		{"list", func(ctx context.Context) error { _, err := s.List(ctx, "", kv.ListOptions{}); return err }},
		{"grant", func(ctx context.Context) error { _, err := s.Grant(ctx, kv.MinTTL); return err }},
		{"commit", func(ctx context.Context) error {
			_, err := s.Commit(ctx, kv.Txn{Then: []kv.Op{kv.Get("alone")}})
			return err
		}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		began := time.Now()
		err := call.do(ctx)
		cancel()
		took := time.Since(began)
		if err == nil || !strings.HasPrefix(err.Error(), call.what) ||
			!strings.Contains(err.Error(), "the cluster timed out") || took > deadline+time.Second {
			t.Errorf("%s with one of three: %v after %s", call.what, err, took)
		}
		t.Logf("%v, after %s", err, took.Round(time.Millisecond))
		if i == 0 { // what was in flight when the member died has arrived
			before = w.acknowledged()
		}
	}
	if n := w.acknowledged(); n != before {
		t.Errorf("%d writes were acknowledged by one of three", n-before)
	}
	c.start(first)
	w.goOn(10)
	c.start(second)
	c.answers(second)
	w.finish()
}

// The leading candidate loses its member of the cluster, and with it its lease: the other candidate leads, and the
// first is notified and can write nothing with its fence.
func TestAnElectionMoves(t *testing.T) {
	c := begin(t)
	weak := c.follower()
	var others []*member
	for _, m := range c.members {
		if m != weak {
			others = append(others, m)
		}
	}
	ann := c.campaign(c.open("fleet", weak))
	lead := ann.wins(t)
	bob := c.campaign(c.open("fleet", others...))
	select {
	case <-bob.won:
		t.Fatal("two lead at once")
	case <-time.After(kv.MinTTL + time.Second): // longer than a lease without renewal
	}
	c.kill(weak)
	killed := time.Now()
	next := bob.wins(t)
	t.Logf("the other leads %s after the kill", time.Since(killed).Round(10*time.Millisecond))
	if err := ann.loses(t); err == nil {
		t.Error("who lost its lease was told nothing")
	}
	if next.Revision <= lead.Revision {
		t.Errorf("won at %d after %d", next.Revision, lead.Revision)
	}
	s := c.open("fleet")
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for _, l := range []struct {
		lead kv.Leadership
		may  bool
	}{{lead, false}, {next, true}} {
		out, err := s.Commit(ctx, kv.Txn{Compares: []kv.Compare{l.lead.Fence()}, Then: []kv.Op{kv.Put("led", nil)}})
		if err != nil || out.Succeeded != l.may {
			t.Errorf("a write of leader %d: %v %v", l.lead.Revision, out.Succeeded, err)
		}
	}
	bob.quit()
	if err := bob.loses(t); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// candidate campaigns, and leads until it loses or quits.
type candidate struct {
	won  chan kv.Leadership
	lost chan error
	quit context.CancelFunc
}

func (c *cluster) campaign(s *etcd.Store) *candidate {
	ctx, quit := context.WithCancel(c.Context())
	c.Cleanup(quit)
	it := &candidate{make(chan kv.Leadership, 1), make(chan error, 1), quit}
	e := backend.Election{Store: s, Key: "elections/leader", TTL: kv.MinTTL, Clock: backend.Wall{}}
	go func() {
		e.Run(ctx, nil, func(turn kv.ElectionUpdate) {
			if turn.Won != nil {
				it.won <- *turn.Won
			}
			if turn.Lost != nil {
				quit()
				select {
				case it.lost <- turn.Lost:
				default: // it was already notified why
				}
			}
		})
	}()
	return it
}

func (it *candidate) wins(t *testing.T) kv.Leadership {
	t.Helper()
	select {
	case l := <-it.won:
		return l
	case err := <-it.lost:
		t.Fatal("the campaign ended:", err)
	case <-time.After(timeout):
		t.Fatal("the candidate does not win")
	}
	return kv.Leadership{}
}

func (it *candidate) loses(t *testing.T) error {
	t.Helper()
	select {
	case err := <-it.lost:
		return err
	case <-time.After(timeout):
		t.Fatal("the leader does not stop")
	}
	return nil
}
