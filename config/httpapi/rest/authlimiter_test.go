package rest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config"
)

// wrong makes one wrong try that is checked at once.
func wrong(t *testing.T, g *AuthLimiter, from string, kind Try) {
	t.Helper()
	leave, wait := g.enter(t.Context(), from, kind)
	if leave == nil {
		t.Fatalf("%s: wait %s", from, wait)
	}
	leave(true)
}

func TestGuessesAreCountedByMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewAuthLimiter()
		began := time.Now()
		for i := range AuthBurst {
			for _, from := range []string{"10.0.0.1:%d", "[2001:db8::%x]:7", "[fe80::1%%eth0]:%d", "@%d"} {
				wrong(t, g, fmt.Sprintf(from, i+1), TryPassword)
			}
		}
		if time.Since(began) > 0 {
			t.Fatalf("the first %d tries took %s", AuthBurst, time.Since(began))
		}
		for from, waits := range map[string]bool{
			"10.0.0.1:99": true, "[2001:db8::ffff]:7": true, "[fe80::2%eth1]:1": true,
			"10.0.0.2:1": false, "[2001:db8:0:1::1]:7": false, "[::ffff:10.0.0.3]:1": false, "@99": false,
		} {
			began := time.Now()
			wrong(t, g, from, TryPassword)
			wrong(t, g, from, TryPassword)
			if took := time.Since(began); took > 0 != waits {
				t.Errorf("%s: two tries take %s", from, took)
			}
		}
		time.Sleep(10 * time.Second)
		began = time.Now()
		wrong(t, g, "10.0.0.1:99", TryPassword)
		wrong(t, g, "10.0.0.1:99", TryPassword)
		if took := time.Since(began); took > 0 {
			t.Errorf("ten seconds later: %s", took)
		}
		if time.Sleep(time.Minute); len(g.lanes) > 3 {
			t.Errorf("%d lanes stay", len(g.lanes))
		}
	})
}

// A client with a valid token gets in beside others at its address that keep failing, as long as these leave one
// waiting place; a thousand wrong tries at once are counted as debt, and do not evade the limit.
func TestWrongTriesKeepNoRightOneOut(t *testing.T) {
	for _, kind := range []Try{TryToken, TryPassword} {
		synctest.Test(t, func(t *testing.T) {
			g := NewAuthLimiter()
			var all []func(bool)
			for range 1000 {
				leave, _ := g.enter(t.Context(), "192.0.2.1:1", kind)
				if leave == nil {
					t.Fatal("the first ones wait")
				}
				all = append(all, leave)
			}
			for _, leave := range all {
				leave(true)
			}
			time.Sleep(10 * time.Minute)
			if g.buckets.WaitTime("192.0.2.1", time.Now()) == 0 {
				t.Error("a thousand at once cost no more than twenty")
			}
			ctx, cancel := context.WithCancel(t.Context())
			var wait sync.WaitGroup
			var looked atomic.Int64
			for range kind.waiting - 1 { // these never stop
				wait.Go(func() {
					for ctx.Err() == nil {
						if leave, _ := g.enter(ctx, "192.0.2.1:1", kind); leave != nil {
							time.Sleep(10 * time.Millisecond) // a check takes time
							looked.Add(1)
							leave(true)
						}
					}
				})
			}
			first := time.Now()
			time.Sleep(time.Minute)
			for range 10 {
				began := time.Now()
				leave, _ := g.enter(t.Context(), "192.0.2.1:2", kind)
				if leave == nil {
					t.Fatalf("%s: one who is right is refused", kind.name)
				}
				leave(false)
				if took := time.Since(began); took > authTimeout {
					t.Errorf("%s: after %s", kind.name, took)
				}
			}
			cancel()
			wait.Wait()
			if took := time.Since(first); kind.pace > 0 && looked.Load() > int64(took/kind.pace)+1 {
				t.Errorf("%d passwords were looked at in %s", looked.Load(), took)
			}
		})
	}
}

// The number of waiting tries is bounded, and a try leaves when its caller does.
func TestThoseWhoWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewAuthLimiter()
		for range AuthBurst {
			wrong(t, g, "192.0.2.1:1", TryPassword)
		}
		hold, _ := g.enter(t.Context(), "192.0.2.1:1", TryPassword)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range TryPassword.waiting - 1 {
			all.Go(func() {
				if leave, wait := g.enter(ctx, "192.0.2.1:1", TryPassword); leave != nil || wait == 0 {
					t.Error("in while another one has the turn")
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		if leave, wait := g.enter(t.Context(), "192.0.2.1:1", TryPassword); leave != nil || wait == 0 ||
			time.Since(began) > 0 {
			t.Error("there are more who wait than their bound")
		}
		if leave, _ := g.enter(t.Context(), "192.0.2.2:1", TryPassword); leave == nil {
			t.Error("another address waits")
		}
		if leave, _ := g.enter(t.Context(), "192.0.2.1:1", TryToken); leave == nil {
			t.Error("a token waits for passwords")
		} else {
			leave(false)
		}
		cancel()
		all.Wait()
		hold(false)
		if len(g.lanes) != 0 {
			t.Errorf("%d lanes stay", len(g.lanes))
		}
	})
}

func TestLanesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewAuthLimiter()
		for i := range 3 * maxLanes {
			from := fmt.Sprintf("10.%d.%d.1:1", i>>8, i&255)
			for range AuthBurst {
				g.buckets.AllowDebt(config.Source(from), time.Now(), authDebt)
			}
			wrong(t, g, from, TryPassword)
		}
		if len(g.lanes) > maxLanes {
			t.Errorf("%d lanes", len(g.lanes))
		}
	})
}

func TestALookThatPanicsGivesItsTurnBack(t *testing.T) {
	g := NewAuthLimiter()
	for range AuthBurst {
		wrong(t, g, "192.0.2.1:1", TryToken)
	}
	for range 2 * TryToken.parallel {
		func() {
			defer func() { _ = recover() }()
			g.Check(t.Context(), "192.0.2.1:1", TryToken, func() bool { panic("a bug") })
		}()
	}
	if looked := false; g.Check(t.Context(), "192.0.2.1:1", TryToken, func() bool { looked = true; return false }) > 0 ||
		!looked {
		t.Error("all turns are lost")
	}
}
