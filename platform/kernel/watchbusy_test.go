package kernel

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vishvananda/netlink"

	"edgespan/netinst/netstate"
)

// busyHost is a host whose lists others interrupt.
type busyHost struct {
	interrupt int // how many lists more; negative: all
	fail      error
	lists     int
}

func (b *busyHost) Interfaces() ([]netstate.Interface, error) {
	b.lists++
	switch {
	case b.fail != nil:
		return nil, b.fail
	case b.interrupt != 0:
		b.interrupt--
		return nil, netlink.ErrDumpInterrupted
	}
	return []netstate.Interface{{Name: "eth0"}}, nil
}

func (b *busyHost) Forwarding() (netstate.Forwarding, error) { return netstate.Forwarding{}, nil }

// Where others change links so fast that no list is complete, the watch goes on: what it knows is reported at once, and
// the interfaces once they can be listed.
func TestAWatchOutlivesAHostThatNeverStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		host := &busyHost{interrupt: 7}
		in, ended := make(chan changes), make(chan error, 1)
		var got []netstate.HostEvent
		go func() {
			ended <- emitChanges(ctx, host, in, func(ev netstate.HostEvent) { got = append(got, ev) })
		}()
		wait := func() { time.Sleep(2 * time.Second); synctest.Wait() }
		wait()
		if len(got) != 1 || !got[0].Resync || len(got[0].Interfaces) != 1 {
			t.Fatalf("after %d lists: %+v, want one first event with the interfaces", host.lists, got)
		}
		host.interrupt = -1
		in <- changes{foreign: true, touched: map[int]bool{7: true}}
		wait()
		if len(got) < 2 || !slices.Equal(got[1].Touched, []int{7}) || got[1].Interfaces != nil {
			t.Errorf("the change of a network is reported as %+v", got[1:])
		}
		before := host.lists
		wait()
		if n := host.lists - before; n == 0 || n > 110 {
			t.Errorf("%d lists in two seconds, want some, and no more than one each 20 ms", n)
		}
		host.fail = errors.New("closed")
		wait()
		if err := <-ended; err == nil || errors.Is(err, netlink.ErrDumpInterrupted) {
			t.Errorf("another error ends the watch with %v", err)
		}
		cancel()
	})
}
