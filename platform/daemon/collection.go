package daemon

import (
	"context"
	"runtime"
	"time"
)

// onCollection calls f after each collection of garbage until ctx ends. Collections during a call lead to one more
// call. In between nothing runs: a timer that looks for work costs an idle process more than all else that it does.
func onCollection(ctx context.Context, f func()) {
	ended := make(chan struct{}, 1)
	var arm func()
	arm = func() {
		// The runtime runs the cleanup after the first collection, which finds that nothing refers to the object.
		runtime.AddCleanup(&struct{ self *int }{}, func(struct{}) {
			if ctx.Err() != nil {
				return
			}
			select {
			case ended <- struct{}{}:
			default: // already signaled
			}
			arm()
		}, struct{}{})
	}
	arm()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ended:
			f()
		}
	}
}

// every calls f at an interval until it returns false or ctx ends.
func every(ctx context.Context, interval time.Duration, f func() (goOn bool)) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if !f() {
				return
			}
		}
	}
}
