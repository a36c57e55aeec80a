package node

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheGateIsNotHeldByWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSemaphore()
		for range semaphoreSlots[helperOps] { // none of these leaves
			g.enter(t.Context(), helperOps)
		}
		start := time.Now()
		leave := g.enter(t.Context(), helperOps)
		if d := time.Since(start); d != semaphoreTimeout[helperOps] {
			t.Errorf("the next one waited %v, want %v", d, semaphoreTimeout[helperOps])
		}
		leave()
		start = time.Now()
		g.enter(t.Context(), helperOps)()
		if d := time.Since(start); d != 0 {
			t.Errorf("with a free slot it waited %v", d)
		}
		for range semaphoreSlots[helperOps] {
			g.enter(t.Context(), helperOps)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		g.enter(ctx, helperOps)() // the node stops: nothing waits
		time.Sleep(time.Second)
	})
}

// A helper starts once no link of another network waits to be created, because each new address wakes every running
// helper. It does not wait for a link that hangs, and not forever.
func TestHelpersComeAfterTheLinksOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSemaphore()
		var leave []func()
		for range semaphoreSlots[buildOps] {
			leave = append(leave, g.enter(t.Context(), buildOps))
		}
		var mu sync.Mutex
		in := map[string]bool{}
		enter := func(class int, name string) {
			go func() {
				g.enter(t.Context(), class)
				mu.Lock()
				defer mu.Unlock()
				in[name] = true
			}()
			synctest.Wait()
		}
		enter(buildOps, "link")
		enter(buildOps, "other link")
		enter(helperOps, "helper")
		for i, want := range []map[string]bool{{}, {"link": true}, {"link": true, "other link": true, "helper": true}} {
			if i > 0 {
				leave[i]()
				synctest.Wait()
			}
			mu.Lock()
			if !maps.Equal(in, want) {
				t.Errorf("with %d of those that run done, %v are in, want %v", i, in, want)
			}
			mu.Unlock()
		}
		for _, l := range append(leave[:1], leave[3:]...) {
			l()
		}
		time.Sleep(time.Second)
	})
}

func TestAHelperGivesWayForSoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSemaphore()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 100 * semaphoreSlots[buildOps] { // none of them leaves
			go g.enter(ctx, buildOps)
		}
		synctest.Wait()
		began := time.Now()
		g.enter(t.Context(), helperOps)()
		if d := time.Since(began); d != helperTimeout {
			t.Errorf("it waited %v, want %v", d, helperTimeout)
		}
		cancel()
		time.Sleep(time.Minute)
	})
}

// A helper also waits for networks that have started but not asked for a slot yet.
func TestHelpersComeAfterNetworksOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(g *semaphore) time.Duration {
			began := time.Now()
			g.enter(t.Context(), helperOps)()
			return time.Since(began)
		}
		g := newSemaphore()
		for n := range maxBuilding {
			g.markBuilding(n + 1)
		}
		if d := wait(g); d != 0 {
			t.Errorf("beside a few a helper waited %v", d)
		}
		for n := range maxBuilding {
			g.markBuilding(100 + n)
		}
		time.AfterFunc(time.Second, func() {
			for n := range maxBuilding {
				g.markBuilt(n + 1)
			}
		})
		if d := wait(g); d != time.Second {
			t.Errorf("it waited %v for those that were made after a second", d)
		}
		g.markBuilding(200)
		if d := wait(g); d != helperTimeout-time.Second {
			t.Errorf("it waited %v for those that never are", d)
		}
		time.Sleep(time.Minute)
	})
}
