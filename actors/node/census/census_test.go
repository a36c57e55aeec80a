package census

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/actors/supervise"
	"edgespan/config/layers/redact"
	"edgespan/netinst"
	"edgespan/pubsub/shellproto"
)

// worker waits at "hold" until it may go on, and keeps the last config.
type worker struct {
	hold   chan struct{}
	config netinst.NetworkInstanceConfig
	notes  map[uuid.UUID]string
	log    *zap.Logger
	census *Census
}

func (w *worker) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case string:
		if msg == "hold" {
			<-w.hold
		}
	case netinst.NetworkInstanceConfig:
		w.config = msg
		w.census.Effect(c.Self().Id, msg.UUID)
	}
}

type rig struct {
	*testing.T
	census *Census
	system *actor.ActorSystem
	pid    *actor.PID
	hold   chan struct{}
}

func run(t *testing.T, vital bool, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, census: New(), system: supervise.System(zap.NewNop(), 1), hold: make(chan struct{})}
		strategy := &supervise.Backoff{Log: zap.NewNop(), Crashed: r.census.Crashed}
		top := r.system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
			if _, ok := c.Message().(*actor.Started); ok {
				props := actor.PropsFromProducer(func() actor.Actor {
					return &worker{hold: r.hold, log: zap.NewNop(), census: r.census,
						notes: map[uuid.UUID]string{uuid.Nil: "a note"}}
				}, r.census.Options(vital, func(string) {})...)
				r.pid, _ = c.SpawnNamed(props, "worker")
			}
		}, actor.WithSupervisor(strategy)))
		synctest.Wait()
		f(r)
		if err := r.system.Root.StopFuture(top).Wait(); err != nil {
			t.Error(err)
		}
		r.system.Shutdown()
		time.Sleep(time.Minute)
		if n := r.census.Len(); n != 0 {
			t.Errorf("%d actors at the end", n)
		}
	})
}

func (r *rig) send(all ...any) {
	for _, m := range all {
		r.system.Root.Send(r.pid, m)
	}
	synctest.Wait()
}

func TestWhatAnActorDoesIsKnownWhileItDoesIt(t *testing.T) {
	run(t, false, func(r *rig) {
		r.send("hold")
		time.Sleep(3 * time.Second)
		for range 100 {
			r.send("behind")
		}
		time.Sleep(2 * time.Second)
		a := r.census.Activities()[0]
		if a.Now != "string" || a.For != 5*time.Second || a.Waiting != 101 || a.Oldest < 2*time.Second {
			r.Errorf("%+v", a)
		}
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		_, err := r.census.Ask(ctx, r.system, r.pid.Id, 1000)
		if err == nil || err.Error() != "does not answer: it has handled string for 6s" {
			r.Errorf("asked: %v", err)
		}
		close(r.hold)
		synctest.Wait()
		if a := r.census.Activities()[0]; a.Now != "" || a.Waiting != 0 || a.Oldest != 0 || a.Messages != 101 {
			r.Errorf("after it: %+v", a)
		}
	})
}

func TestTheFirstOfAFewMessagesIsAsOldAsItIs(t *testing.T) {
	run(t, false, func(r *rig) {
		r.send("hold")
		time.Sleep(time.Second)
		r.send("first")
		time.Sleep(time.Minute)
		r.send("second")
		if a := r.census.Activities()[0]; a.Oldest != 61*time.Second || a.Waiting != 3 {
			r.Errorf("%+v", a) // the one in hand is the oldest
		}
		close(r.hold)
	})
}

func secret(n string) netinst.NetworkInstanceConfig {
	return netinst.NetworkInstanceConfig{UUID: uuid.MustParse("6e0eb2b6-2ab9-4a8e-b7b1-9a0b8a8f2d01"), DisplayName: n,
		VPN: &netinst.VPNConfig{IPsec: &netinst.IPsec{Local: netinst.IPsecEnd{Secret: "canary-one"}}}}
}

func TestAStateIsShownWithoutSecrets(t *testing.T) {
	run(t, false, func(r *rig) {
		var known redact.Redactor
		known.Learn("canary-two")
		r.census.Mask = func(s string) string { return string(known.Text([]byte(s))) }
		r.send(secret("holds canary-two"))
		state, err := r.census.Ask(r.Context(), r.system, r.pid.Id, 1000)
		if err != nil {
			r.Fatal(err)
		}
		text, err := json.Marshal(state)
		if err != nil {
			r.Fatal(err)
		}
		for _, want := range []string{`"6e0eb2b6-2ab9-4a8e-b7b1-9a0b8a8f2d01"`, `"DisplayName":"holds ` + redact.Mark + `"`,
			`"Secret":"` + redact.Mark + `"`, `"notes":{"00000000-0000-0000-0000-000000000000":"a note"}`} {
			if !strings.Contains(string(text), want) {
				r.Errorf("%s is missing in %s", want, text)
			}
		}
		for _, no := range []string{"canary", "census", "log"} {
			if strings.Contains(string(text), no) {
				r.Errorf("%s in %s", no, text)
			}
		}
		if _, err := r.census.Ask(r.Context(), r.system, "other", 1000); !errors.Is(err, ErrUnknown) {
			r.Errorf("an unknown actor: %v", err)
		}
	})
}

func TestATapShowsMessagesAndEffectsAndCountsTheRest(t *testing.T) {
	run(t, false, func(r *rig) {
		var mu sync.Mutex
		var got []string
		dropped, stop := r.census.Follow(r.pid.Id, func(i shellproto.TailItem) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprintf("%s %s %s %v", i.Way, i.Type, i.Text, i.Took))
		})
		r.send(secret("n"), "hold")
		time.Sleep(time.Second)
		close(r.hold)
		synctest.Wait()
		all := strings.Join(got, "\n")
		if len(got) != 4 || strings.Contains(all, "canary") || !strings.HasPrefix(got[0], "in netinst.NetworkInstanceConfig {") ||
			got[1] != `out uuid.UUID "6e0eb2b6-2ab9-4a8e-b7b1-9a0b8a8f2d01" 0s` || got[2] != `in string "hold" 0s` ||
			got[3] != "handled string  1s" {
			r.Errorf("%d items:\n%s", len(got), all)
		}
		for range 3 * tapBurst {
			r.send("many")
		}
		// One token is that of the message's end, which came with the second.
		if n := dropped(); n != 2*tapBurst+1 || dropped() != 0 || len(got) != 4+tapBurst-1 {
			r.Errorf("%d dropped, %d shown", n, len(got))
		}
		others, stopOther := r.census.Follow(r.pid.Id, func(shellproto.TailItem) {})
		time.Sleep(time.Minute)
		got = nil
		for range tapBurst {
			r.send("shared")
		}
		if n := dropped(); len(got) != tapBurst/2 || n != tapBurst/2 || others() != tapBurst/2 {
			r.Errorf("of two taps one shows %d and drops %d", len(got), n)
		}
		stopOther()
		stop()
		r.send("after")
		if n := dropped(); n != 0 || r.census.taps.Load() != nil {
			r.Errorf("%d dropped after the end", n)
		}
	})
}

func TestATraceHasTheStepsOfANetworkAndTheNodes(t *testing.T) {
	c := New()
	c.Mask = func(s string) string { return strings.ReplaceAll(s, "canary", "") }
	var one, all []string
	dropped, stop := c.Trace("n1", func(i shellproto.TraceItem) { one = append(one, i.Where+i.What+i.Error) })
	_, stopAll := c.Trace("", func(i shellproto.TraceItem) { all = append(all, i.Where) })
	for _, n := range []string{"n1", "n2", ""} {
		c.Step(shellproto.TraceItem{Where: "at " + n, Network: n, What: " canary", Error: " canary"})
	}
	if fmt.Sprint(one) != "[at n1   at   ]" || len(all) != 3 || !c.IsTraced() {
		t.Errorf("%q, %q", one, all)
	}
	for range 2 * tapBurst {
		c.Step(shellproto.TraceItem{})
	}
	if n := dropped(); n < tapBurst || len(one) > 2*tapBurst {
		t.Errorf("%d dropped, %d shown", n, len(one))
	}
	stop()
	stopAll()
	if c.IsTraced() {
		t.Error("still traced")
	}
}

func TestACrashOnRequestIsACrashAndSparesTheVital(t *testing.T) {
	run(t, false, func(r *rig) {
		if err := r.census.Crash(r.system, r.pid.Id, "asked by uid 7"); err != nil {
			r.Fatal(err)
		}
		synctest.Wait()
		down, is := r.census.Down(r.pid.Id)
		if !is || down.Crashes != 1 || down.Last != "asked by uid 7" {
			r.Errorf("%+v, %v", down, is)
		}
		time.Sleep(time.Second)
		if a := r.census.Activities()[0]; a.State != "running" || a.Waiting != 0 {
			r.Errorf("after its restart: %+v", a)
		}
	})
	run(t, true, func(r *rig) {
		if err := r.census.Crash(r.system, r.pid.Id, "x"); !errors.Is(err, ErrVital) {
			r.Errorf("a vital actor: %v", err)
		}
	})
}

func BenchmarkAMessage(b *testing.B) {
	for name, follow := range map[string]bool{"alone": false, "followed": true} {
		b.Run(name, func(b *testing.B) {
			c := New()
			own := c.started("worker", &mailbox{}, false)
			if follow {
				_, stop := c.Follow("worker", func(shellproto.TailItem) {})
				defer stop()
			}
			next := func(actor.ReceiverContext, *actor.MessageEnvelope) {}
			env := &actor.MessageEnvelope{Message: secret("n")}
			b.ReportAllocs()
			for b.Loop() {
				c.handle(own, next, self{}, env)
			}
		})
	}
}

// self is a context that knows its PID alone.
type self struct{ actor.ReceiverContext }

var workerPID = actor.NewPID("local", "worker")

func (self) Self() *actor.PID { return workerPID }
