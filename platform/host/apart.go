package host

import (
	"fmt"
	"runtime/debug"
)

// onOwnStack runs f on a goroutine of its own, and panics if f does.
//
// The reader of vishvananda/netlink has a buffer of 64 KiB on its stack. Go shrinks such a stack by half per
// collection, so the waiting appliers of 999 networks would hold 100 MB of stacks. The stack of a finished goroutine is
// reused by the next one.
func onOwnStack[T any](f func() (T, error)) (T, error) {
	type end struct {
		value T
		err   error
		panic any
	}
	ended := make(chan end, 1)
	go func() {
		var e end
		defer func() {
			if r := recover(); r != nil {
				e.panic = fmt.Sprintf("%v\n%s", r, debug.Stack())
			}
			ended <- e
		}()
		e.value, e.err = f()
	}()
	e := <-ended
	if e.panic != nil {
		panic(e.panic)
	}
	return e.value, e.err
}
