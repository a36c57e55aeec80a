package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"edgespan/config/httpapi/rest"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// stuck is a host on which a full observation blocks while it is armed, regardless of its deadline, until it gets a
// value.
type stuck struct {
	*fake.Host
	armed      atomic.Bool
	free       chan struct{}
	mu         sync.Mutex
	now, limit int // concurrent observations
}

func (s *stuck) Owners(ctx context.Context) ([]netstate.Owner, error) {
	if s.armed.Load() {
		s.look(1)
		<-s.free
		s.look(-1)
	}
	return s.Host.Owners(ctx)
}

func (s *stuck) look(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += by
	s.limit = max(s.limit, s.now)
}

func TestPlansAndDiffsAreMadeOneAtATimeAndInBoundedTime(t *testing.T) {
	onRig(t, func(r *rig) {
		r.stop()
		host := &stuck{Host: r.host, free: make(chan struct{})}
		n, err := Start(Options{Host: host, Files: r.files, About: r.about, Journal: r.journal, RunDir: "/run/edgespan",
			Boot: 9, Log: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		r.node = n
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		host.armed.Store(true)
		look := func(f func() error) <-chan error {
			answer := make(chan error, 1)
			go func() { answer <- f() }()
			r.settle(0)
			return answer
		}
		plan := func() error {
			changes, err := r.node.Plan(context.Background(), []byte(doc(2, 0)))
			if err == nil && len(changes) == 0 {
				err = errors.New("nothing would change")
			}
			return err
		}
		diff := func() error {
			differences, err := r.node.Diff(context.Background(), "")
			if err == nil && len(differences) > 0 {
				err = fmt.Errorf("differences: %v", differences)
			}
			return err
		}
		first, second := look(plan), look(diff)
		r.settle(5 * time.Second)
		r.waits(first)
		r.waits(second)
		host.free <- struct{}{}
		host.free <- struct{}{}
		for _, a := range []<-chan error{first, second} {
			if err := <-a; err != nil {
				t.Error(err)
			}
		}
		if host.limit != 1 {
			t.Fatalf("%d looked at the host at once", host.limit)
		}

		first = look(diff)
		r.settle(time.Second)
		second = look(plan)
		third := look(diff)
		r.settle(8900 * time.Millisecond)
		r.waits(first)
		r.settle(200 * time.Millisecond)
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the diff that hangs is answered with %v", err)
		}
		r.waits(second)
		r.settle(time.Second)
		if err := <-second; !errors.Is(err, rest.ErrBusy) {
			t.Errorf("the plan that waits is answered with %v", err)
		}
		if err := <-third; !errors.Is(err, rest.ErrBusy) {
			t.Errorf("the diff that waits is answered with %v", err)
		}
		host.free <- struct{}{}
		r.settle(0)
		again := look(plan)
		host.free <- struct{}{}
		if err := <-again; err != nil {
			t.Errorf("after the hang: %v", err)
		}
	})
}
