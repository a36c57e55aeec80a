package actors

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"edgespan/config/httpapi"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// stuck is a host on which looking at a network hangs, whatever its deadline, until
// one value comes.
type stuck struct {
	*fake.Host
	free      chan struct{}
	mu        sync.Mutex
	now, most int // of looks under way
}

func (s *stuck) Observe(ctx context.Context, o netstate.Owner, full bool) (netstate.State, error) {
	if o.Number == 0 {
		return s.Host.Observe(ctx, o, full)
	}
	s.look(1)
	<-s.free
	s.look(-1)
	return s.Host.Observe(ctx, o, full)
}

func (s *stuck) look(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += by
	s.most = max(s.most, s.now)
}

func TestPlansAreMadeOneAtATimeAndInBoundedTime(t *testing.T) {
	onRig(t, func(r *rig) {
		r.stop()
		host := &stuck{Host: r.host, free: make(chan struct{})}
		n, err := Start(Options{Host: host, Files: r.files, Journal: r.journal, RunDir: "/run/edgespan", Boot: 9, Log: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		r.node = n
		r.settle(0)
		plan := func() <-chan error {
			answer := make(chan error, 1)
			go func() {
				changes, err := r.node.Plan(context.Background(), []byte(doc(1, 0)))
				if err == nil && len(changes) == 0 {
					err = errors.New("nothing would change")
				}
				answer <- err
			}()
			r.settle(0)
			return answer
		}
		first, second := plan(), plan()
		r.settle(5 * time.Second)
		r.waits(first)
		r.waits(second)
		for _, a := range []<-chan error{first, second} {
			host.free <- struct{}{}
			if err := <-a; err != nil {
				t.Errorf("plan: %v", err)
			}
		}
		if host.most != 1 {
			t.Errorf("%d plans looked at the host at once", host.most)
		}

		first = plan()
		r.settle(time.Second)
		second = plan()
		r.settle(8900 * time.Millisecond)
		r.waits(first)
		r.settle(200 * time.Millisecond)
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the plan that hangs is answered with %v", err)
		}
		r.waits(second)
		r.settle(time.Second)
		if err := <-second; !errors.Is(err, httpapi.ErrBusy) {
			t.Errorf("the plan that waits is answered with %v", err)
		}
		host.free <- struct{}{}
		r.settle(0)
		again := plan()
		host.free <- struct{}{}
		if err := <-again; err != nil {
			t.Errorf("after the hang: %v", err)
		}
	})
}
