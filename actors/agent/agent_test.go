package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/rest"
	"edgespan/config/nodeconf/commitconfirm"
)

func TestAPushIsConfirmedByARoundTripAfterItHasSettled(t *testing.T) {
	onRig(t, func(r *rig) {
		r.connect()
		p := r.push(`{"a":1}`)
		s := r.status()
		if !s.Pending || s.Settled || s.Remaining != commitconfirm.DefaultConfirm || s.Managed == nil || !*s.Managed {
			t.Errorf("at once it is %+v", s)
		}
		r.outcomes("at once", "1 accepted")
		r.settle(time.Second)
		r.outcomes("settled", "1 accepted", "1 applied")
		r.runs("confirmed", `{"a":1}`, commitconfirm.Push)
		if s := r.status(); s.Pending || s.Echo.Generation != p.Generation {
			t.Errorf("then it is %+v", s)
		}
		if got, want := r.disk.names(), []string{"confirmed", "copy", "notes"}; !slices.Equal(got, want) {
			t.Errorf("the disk has %q, want %q", got, want)
		}
		reports := said[nodeproto.Report](r.ctl)
		last := reports[len(reports)-1]
		if last.Pending != nil || last.Generation != p.Generation || last.MD5 != p.MD5 || !last.Settled ||
			last.Source != "controller" || len(last.Health) != 2 {
			t.Errorf("the last report is %+v", last)
		}
		before := len(said[nodeproto.Report](r.ctl))
		r.settle(time.Minute)
		if n := len(said[nodeproto.Report](r.ctl)) - before; n != 12 {
			t.Errorf("%d reports in a minute, want one each 5 s", n)
		}
	})
}

func TestAPushThatBreaksTheUplinkIsUndoneAsUnhealthy(t *testing.T) {
	onRig(t, func(r *rig) {
		r.connect()
		r.push(`{"a":1}`)
		r.settle(time.Second)
		bad := r.push(`{"a":2,"uplink":"bad"}`)
		r.settle(time.Second)
		reports := said[nodeproto.Report](r.ctl)
		if p := reports[len(reports)-1].Pending; p == nil || !p.Settled || !slices.Equal(p.Worse, []string{"uplink"}) {
			t.Errorf("while it is broken the report says %+v", p)
		}
		r.agent.Received(nodeproto.Confirm{Generation: bad.Generation}) // whatever the controller thinks
		r.cutLine()
		r.settle(commitconfirm.DefaultConfirm)
		r.runs("undone", `{"a":1}`, commitconfirm.Rollback)
		for range 2 { // until it is acknowledged
			r.connect()
			r.ctl.set(func(c *controller) { c.noAck = true })
			r.settle(0)
			r.outcomes("on a new stream", "2 unhealthy")
		}
		res := said[nodeproto.Result](r.ctl)[0]
		if res.Generation != bad.Generation || res.MD5 != bad.MD5 ||
			res.Restored != (config.Generation{Authority: "c", Counter: 1}) ||
			len(res.Faults) != 1 || !strings.Contains(res.Faults.Error(), "uplink") {
			t.Errorf("the result is %+v", res)
		}
		r.reboot()
		r.connect()
		r.ctl.set(func(c *controller) { c.noAck = true })
		r.settle(0)
		r.outcomes("after a reboot", "2 unhealthy")
		r.agent.Received(nodeproto.Ack{Attempt: 2})
		r.connect()
		r.settle(time.Second)
		r.outcomes("acknowledged")
	})
}

func TestAPushThatNobodyConfirmsIsUndoneAndCanBePushedAgain(t *testing.T) {
	onRig(t, func(r *rig) {
		r.connect()
		r.push(`{"a":1}`)
		r.settle(time.Second)
		r.ctl.set(func(c *controller) { c.deaf = true })
		again := r.push(`{"a":2}`)
		r.settle(commitconfirm.DefaultConfirm + time.Second)
		r.runs("undone", `{"a":1}`, commitconfirm.Rollback)
		r.outcomes("undone", "1 accepted", "1 applied", "2 accepted", "2 applied", "2 unconfirmed")
		r.ctl.set(func(c *controller) { c.deaf = false })
		r.pushAs(`{"a":2}`, again.Generation)
		r.settle(time.Second)
		r.runs("pushed again", `{"a":2}`, commitconfirm.Push)
	})
}

// While an undo is on its way the node still says the config that it gives up: never as one
// that nothing can happen to any more.
func TestAnUndoOnItsWayIsNotTakenForAConfirmedConfig(t *testing.T) {
	onRig(t, func(r *rig) {
		r.connect()
		r.push(`{"a":1}`)
		r.settle(time.Second)
		r.ctl.set(func(c *controller) { c.deaf = true })
		bad := r.push(`{"a":2,"uplink":"bad"}`)
		r.host.settleAfter(20 * time.Second) // as a host does that has much to take back
		r.settle(commitconfirm.DefaultConfirm + 32*time.Second)
		r.runs("undone", `{"a":1}`, commitconfirm.Rollback)
		undoing := 0
		for _, m := range said[nodeproto.Report](r.ctl) {
			if m.Generation != bad.Generation {
				continue
			}
			switch p := m.Pending; {
			case p == nil:
				t.Errorf("a report says %v, and nothing of its undo", m.Generation)
			case p.Remaining == 0 && !p.Settled && !m.Settled && p.Generation == bad.Generation:
				undoing++
			}
		}
		if undoing == 0 {
			t.Error("no report was sent during the undo")
		}
	})
}

// For an hour there is no controller: what it had confirmed stays, what it had not is undone
// and comes again with it. No health is lost.
func TestAnHourWithoutAControllerUndoesNothingForGood(t *testing.T) {
	for name, confirmed := range map[string]bool{"confirmed before": true, "pushed when it went": false} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.connect()
				r.push(`{"a":1}`)
				r.settle(time.Second)
				r.ctl.set(func(c *controller) { c.deaf = !confirmed })
				p := r.push(`{"a":2}`)
				r.settle(time.Second)
				r.cutLine()
				r.settle(time.Hour)
				if confirmed {
					r.runs("after an hour", `{"a":2}`, commitconfirm.Push)
					return
				}
				r.runs("after an hour", `{"a":1}`, commitconfirm.Rollback)
				r.connect()
				r.settle(time.Second)
				r.outcomes("back", "2 unconfirmed") // not unhealthy: it may come again
				r.pushAs(`{"a":2}`, p.Generation)
				r.settle(time.Second)
				r.runs("pushed again", `{"a":2}`, commitconfirm.Push)
			})
		})
	}
}

func TestTwoBootsInsideTheTimeRevertAtOnce(t *testing.T) {
	onRig(t, func(r *rig) {
		r.connect()
		r.push(`{"a":1}`)
		r.settle(time.Second)
		r.ctl.set(func(c *controller) { c.deaf = true })
		r.push(`{"a":2}`)
		r.settle(20 * time.Second)
		r.reboot()
		r.settle(10 * time.Second)
		s := r.status()
		if !s.Pending || s.Undoing || s.Remaining > 91*time.Second || s.Remaining < 80*time.Second {
			t.Errorf("after one boot it is %+v", s)
		}
		r.reboot()
		r.settle(time.Second)
		r.runs("after two", `{"a":1}`, commitconfirm.Rollback)
		r.connect()
		r.outcomes("after two", "2 unhealthy")
	})
}

func TestAStopByIntentionIsNoCrash(t *testing.T) {
	onRig(t, func(r *rig) {
		r.connect()
		r.push(`{"a":1}`)
		r.settle(time.Second)
		r.ctl.set(func(c *controller) { c.deaf = true })
		r.push(`{"a":2}`)
		r.settle(time.Second)
		for range 4 {
			if err := r.agent.Stop(context.Background()); err != nil {
				t.Fatal(err)
			}
			r.stop()
			r.start()
			r.settle(time.Second)
		}
		if s := r.status(); !s.Pending || s.Undoing {
			t.Errorf("after four restarts by intention it is %+v", s)
		}
	})
}

func TestAFaultyPushTouchesNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		r.connect()
		r.push(`{"a":1}`)
		r.settle(time.Second)
		before, published := r.disk.count, len(r.host.all)
		r.ctl.set(func(c *controller) { c.noAck = true })
		r.push(`{"bad":1}`)
		wrong := nodeproto.Push{Attempt: 3, Generation: config.Generation{Authority: "c", Counter: 3}, MD5: "other",
			Document: []byte(`{"a":3}`), Managed: true}
		r.agent.Received(wrong)
		r.settle(time.Second)
		r.outcomes("refused", "1 accepted", "1 applied", "2 rejected", "3 rejected")
		if r.disk.count != before || len(r.host.all) != published {
			t.Errorf("it wrote %d times and published %q", r.disk.count-before, r.host.all[published:])
		}
		r.connect()
		r.settle(0)
		r.outcomes("on the next stream", "3 rejected")
		r.settle(time.Second)
		r.connect()
		r.settle(0)
		r.outcomes("once it was acknowledged")
	})
}

func TestANumberIsTakenWithoutAnythingElse(t *testing.T) {
	onRig(t, func(r *rig) {
		r.connect()
		r.push(`{"a":1,"x":{"RESTART_SNMP":1}}`)
		r.settle(time.Second)
		published, did := len(r.host.all), len(r.runner.did)
		g := config.Generation{Authority: "c", Counter: 9}
		r.agent.Received(nodeproto.Number{Generation: g})
		r.settle(time.Second)
		if s := r.status(); s.Echo.Generation != g || s.Pending || len(r.host.all) != published || len(r.runner.did) != did {
			t.Errorf("numbered it is %+v, published %q, did %q", s, r.host.all, r.runner.did)
		}
		r.outcomes("numbered", "1 accepted", "1 applied")
		reports := said[nodeproto.Report](r.ctl)
		if last := reports[len(reports)-1]; last.Generation != g {
			t.Errorf("the report says %v", last.Generation)
		} else if ps := last.Parameters; ps[0].Generation != g || ps[1].Generation != (config.Generation{}) {
			t.Errorf("numbered %v, the parameters answer %+v", g, ps)
		}
		// The same again as a push has its results.
		r.push(`{"a":1,"x":{"RESTART_SNMP":1}}`)
		r.settle(time.Second)
		r.outcomes("pushed again", "1 accepted", "1 applied", "2 accepted", "2 applied")
	})
}

func TestAManagedNodeTakesItsConfigFromItsController(t *testing.T) {
	onRig(t, func(r *rig) {
		if err := r.apply(`{"a":0}`); err != nil {
			t.Errorf("before anybody said so: %v", err)
		}
		r.connect()
		r.agent.Received(nodeproto.Managed{On: true})
		r.settle(0)
		err := r.apply(`{"a":1}`)
		if !errors.Is(err, rest.ErrConflict) || !strings.Contains(err.Error(), "c.example:8444") ||
			!strings.Contains(err.Error(), "--local") {
			t.Errorf("apply answers %v", err)
		}
		r.hasFile, r.file = true, []byte("a: 2\n")
		r.agent.Reload()
		r.settle(time.Second)
		if r.host.published() != "{a:0}" || !strings.Contains(r.host.trouble, "apply the config file node.yaml") {
			t.Errorf("the file: published is %s, trouble %q", r.host.published(), r.host.trouble)
		}
		local := func(w *Request) { w.Local = true }
		if err := r.apply(`{"a":3}`, local); err != nil {
			t.Fatal(err)
		}
		r.push(`{"a":4}`)
		r.settle(time.Second)
		for _, when := range []string{"held", "held over a reboot"} {
			r.runs(when, `{"a":3}`, commitconfirm.Apply)
			s := r.status()
			if s.Held == nil || s.Held.By != "ann" || s.Held.Since.IsZero() || s.Managed == nil || !*s.Managed {
				t.Fatalf("%s: %+v", when, s)
			}
			r.reboot()
			r.settle(time.Second)
		}
		r.connect()
		r.settle(time.Second)
		if h := said[nodeproto.Report](r.ctl)[0].Held; h == nil || h.By != "ann" {
			t.Errorf("the report says held is %+v", h)
		}
		r.agent.Received(nodeproto.Release{})
		r.push(`{"a":5}`)
		r.settle(time.Second)
		r.runs("released", `{"a":5}`, commitconfirm.Push)
		if held, err := r.agent.Release(context.Background()); held || err != nil {
			t.Errorf("released again: %v, %v", held, err)
		}
	})
}

func TestALocalApplyWithATimeIsUndoneUnlessItIsConfirmed(t *testing.T) {
	onRig(t, func(r *rig) {
		if err := r.apply(`{"a":1}`); err != nil {
			t.Fatal(err)
		}
		within := func(w *Request) { w.Confirm = time.Minute }
		ctx := context.Background()
		if err := r.agent.Confirm(ctx, commitconfirm.Generation{}); !errors.Is(err, rest.ErrConflict) {
			t.Errorf("confirm of nothing answers %v", err)
		}
		if err := r.agent.Rollback(ctx); !errors.Is(err, rest.ErrConflict) {
			t.Errorf("rollback of nothing answers %v", err)
		}
		for _, c := range []struct {
			how, text string
			do        func() error
			from      commitconfirm.Source
		}{
			{"by itself", `{"a":1}`, func() error { return nil }, commitconfirm.Rollback},
			{"rolled back", `{"a":1}`, func() error { return r.agent.Rollback(ctx) }, commitconfirm.Rollback},
			{"confirmed", `{"a":2}`, func() error { return r.agent.Confirm(ctx, commitconfirm.Generation{}) },
				commitconfirm.Apply},
		} {
			if err := r.apply(`{"a":2}`, within); err != nil {
				t.Fatal(err)
			}
			r.settle(time.Second)
			if s := r.status(); !s.Pending || !s.Settled {
				t.Errorf("%s: pending is %+v", c.how, s)
			}
			if err := c.do(); err != nil {
				t.Errorf("%s: %v", c.how, err)
			}
			r.settle(time.Minute + time.Second)
			r.runs(c.how, c.text, c.from)
		}
	})
}

func TestWithoutAnyConfigTheLatestBaseIsTakenAndRemovesNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		r.settle(time.Second)
		r.runs("at first", `{"base":10}`, commitconfirm.Base)
		if !r.host.last.Keep || !r.status().Fallback {
			t.Error("the base may remove something")
		}
		if err := r.apply(`{"a":1}`); err != nil {
			t.Fatal(err)
		}
		if r.host.last.Keep {
			t.Error("what was applied may remove nothing")
		}
		r.stop()
		r.disk.files["confirmed"] = []byte("torn")
		r.start()
		r.settle(time.Second)
		r.runs("torn", `{"a":1}`, commitconfirm.Apply)
		if !r.host.last.Keep {
			t.Error("the copy may remove something")
		}
		r.stop()
		r.disk.files = map[string][]byte{}
		r.hasFile, r.file = true, []byte("a: 7\n")
		published := len(r.host.all)
		r.start()
		r.settle(time.Second)
		r.runs("with a file", `{"a":7}`, commitconfirm.File)
		if got := r.host.all[published:]; len(got) != 1 || r.host.last.Keep {
			t.Errorf("with a file %q were published", got)
		}
	})
}

func TestAConfigThatCanNotBeStoredChangesNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		r.connect()
		r.push(`{"a":1}`)
		r.settle(time.Second)
		r.disk.fail = errors.New("no space left")
		if err := r.apply(`{"a":2}`, func(w *Request) { w.Local = true }); err == nil ||
			!strings.Contains(err.Error(), "no space left") {
			t.Errorf("apply answers %v", err)
		}
		r.push(`{"a":3}`)
		r.settle(time.Second)
		r.runs("full", `{"a":1}`, commitconfirm.Push)
		results := said[nodeproto.Result](r.ctl)
		if last := results[len(results)-1]; last.Outcome != nodeproto.NotStored ||
			!strings.Contains(last.Faults.Error(), "no space left") {
			t.Errorf("the controller was told %+v", last)
		}
		r.disk.fail = nil
		r.push(`{"a":3}`)
		r.settle(time.Second)
		r.runs("not full any more", `{"a":3}`, commitconfirm.Push)
	})
}

func TestHelloSaysWhatRuns(t *testing.T) {
	onRig(t, func(r *rig) {
		r.connect()
		p := r.push(`{"a":1}`)
		r.settle(time.Second)
		if h := r.agent.Hello(); h.MD5 != p.MD5 || h.Generation != p.Generation || h.Name != "n" ||
			h.Software != "EDGESPAN-0-1-0" || h.Board != "b1" {
			t.Errorf("hello is %+v", h)
		}
	})
}

func TestAHungDiskIsSaid(t *testing.T) {
	onRig(t, func(r *rig) {
		free := make(chan struct{})
		r.disk.hang = free
		answers := make(chan error, 2)
		for _, text := range []string{`{"a":1}`, `{"a":2}`} {
			w := Request{Document: doc(t, text)}
			go func() {
				_, err := r.agent.Apply(context.Background(), w)
				answers <- err
			}()
			r.settle(time.Second)
		}
		if _, err := r.agent.Apply(context.Background(), Request{Document: doc(t, `{"bad":1}`)}); !errors.As(err,
			&config.Faults{}) {
			t.Errorf("a faulty document is answered with %v", err)
		}
		r.settle(8100 * time.Millisecond)
		if err := <-answers; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first is answered with %v", err)
		}
		r.settle(time.Second)
		if err := <-answers; !errors.Is(err, rest.ErrBusy) {
			t.Errorf("the second is answered with %v", err)
		}
		close(free)
		r.settle(time.Second)
		r.runs("the disk is back", `{"a":1}`, commitconfirm.Apply)
	})
}

func TestAConfigReplacesOnlyTheOneThatItWasMadeFrom(t *testing.T) {
	onRig(t, func(r *rig) {
		if err := r.apply(`{"a":1}`); err != nil {
			t.Fatal(err)
		}
		from := r.status()
		if from.Document["a"] != int64(1) {
			t.Errorf("the desired document is %v", from.Document)
		}
		replacing := func(w *Request) { w.Replaces = from.Desired.Generation }
		free := make(chan struct{})
		r.disk.mu.Lock()
		r.disk.hang = free
		r.disk.mu.Unlock()
		answers := [2]chan error{make(chan error, 1), make(chan error, 1)}
		for i, text := range []string{`{"a":2}`, `{"a":3}`} { // both wait for the disk
			w := Request{Document: doc(r, text)}
			replacing(&w)
			go func() {
				_, err := r.agent.Apply(context.Background(), w)
				answers[i] <- err
			}()
			r.settle(0)
		}
		close(free)
		if err := <-answers[0]; err != nil {
			t.Error(err)
		}
		if err := <-answers[1]; !errors.Is(err, rest.ErrConflict) {
			t.Errorf("the second is answered with %v", err)
		}
		r.settle(time.Second)
		r.runs("after both", `{"a":2}`, commitconfirm.Apply)
		if err := r.apply(`{"a":4}`, replacing); !errors.Is(err, rest.ErrConflict) {
			t.Errorf("a late one is answered with %v", err)
		}
		from = r.status()
		if err := r.apply(`{"a":4}`, replacing); err != nil {
			t.Error(err)
		}
		r.settle(time.Second)
		r.runs("read again", `{"a":4}`, commitconfirm.Apply)
	})
}

// Whoever asks after the answer is told of the new config.
func TestAnApplyIsAnsweredAfterItIsPublished(t *testing.T) {
	onRig(t, func(r *rig) {
		var answered, early atomic.Bool
		r.host.during = func() {
			time.Sleep(time.Second) // what would answer has the time for it
			early.Store(answered.Load())
		}
		go func() {
			_ = r.apply(`{"a":1}`)
			answered.Store(true)
		}()
		r.settle(2 * time.Second)
		if early.Load() || !answered.Load() {
			t.Errorf("answered %v, before it was published: %v", answered.Load(), early.Load())
		}
	})
}

func TestAStartHasBegunOnceItsConfigIsPublished(t *testing.T) {
	onRig(t, func(r *rig) {
		r.stop()
		r.hasFile, r.file = true, []byte("a: 7\n")
		free := make(chan struct{})
		r.disk.hang = free
		r.start()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := r.agent.WaitStarted(ctx); err == nil {
			t.Errorf("it has begun with %s", r.host.published())
		}
		close(free)
		if err := r.agent.WaitStarted(context.Background()); err != nil || r.host.published() != "{a:7}" {
			t.Errorf("it has begun with %s: %v", r.host.published(), err)
		}
	})
}

// Where nothing was ever stored, the config of the file comes into force although it can't be
// stored either: it is there to be read again. What a person applies is refused then. Once the
// disk takes it, it is stored.
func TestAFileComesIntoForceOnADiskThatTakesNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		r.stop()
		r.disk.mu.Lock()
		r.disk.fail = errors.New("no space left")
		r.disk.mu.Unlock()
		r.hasFile, r.file = true, []byte("a: 7\n")
		for range 2 {
			r.start()
			r.settle(time.Second)
			r.runs("the disk is full", `{"a":7}`, commitconfirm.File)
			if err := r.apply(`{"a":8}`); err == nil || !strings.Contains(err.Error(), "no space left") {
				t.Errorf("an apply is answered with %v", err)
			}
			r.runs("after the apply", `{"a":7}`, commitconfirm.File)
			if got := r.disk.names(); len(got) > 0 {
				t.Errorf("on the disk are %q", got)
			}
			r.stop()
		}
		r.start()
		r.disk.mu.Lock()
		r.disk.fail = nil
		r.disk.mu.Unlock()
		r.settle(11 * time.Second)
		r.hasFile = false
		r.reboot()
		r.settle(time.Second)
		r.runs("stored", `{"a":7}`, commitconfirm.File)
	})
}

// The text of a push is stored as it came only if it is the form whose MD5 the controller gave.
func TestThePushedTextIsStoredOnlyInItsCanonicalForm(t *testing.T) {
	document := config.Object{"a": int64(1), "b": config.Object{}}
	canonical := config.AppendCanonical(nil, document)
	for _, one := range []struct {
		text, md5 string
		stored    bool
		fault     string
	}{
		{string(canonical), config.MD5(document), true, ""},
		{`{"b":{},"a":1}`, config.MD5(document), false, ""},
		{`{"a":2}`, config.MD5(document), false, "its MD5 is "},
		{string(canonical) + "x", config.MD5(document), false, "invalid JSON"},
	} {
		got, text, err := pushed(nodeproto.Push{Document: []byte(one.text), MD5: one.md5})
		if one.fault != "" {
			if err == nil || !strings.Contains(err.Error(), one.fault) {
				t.Errorf("%s: %v, want %s", one.text, err, one.fault)
			}
			continue
		}
		if err != nil || config.MD5(got) != one.md5 || (text != nil) != one.stored || one.stored && string(text) != one.text {
			t.Errorf("%s: %v, stored as it is: %s, %v", one.text, got, text, err)
		}
	}
}
