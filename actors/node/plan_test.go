package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"edgespan/config/httpapi/nodeapi"
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
		n, err := Start(Options{Host: host, Files: r.files, About: r.about, Journal: r.journal, FlowStore: &r.flows, RunDir: "/run/edgespan",
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

// A plan of a config under which a network would leave by another port shows it, also while a port does not work.
func TestAPlanChoosesPortsAsTheNetworkWould(t *testing.T) {
	onRig(t, func(r *rig) {
		dead := r.probedUplinks(1)
		dear := strings.Replace(withProbedUplinks(1), "uplink0, uplink: true", "uplink0, uplink: true, cost: 20", 1)
		planned := func(when, text string, want bool) {
			t.Helper()
			changes, err := r.node.Plan(context.Background(), []byte(text))
			moves := slices.ContainsFunc(changes, func(c nodeapi.Change) bool { return c.Kind == string(netstate.KindRoute) })
			if err != nil || moves != want {
				t.Errorf("%s: planned %+v, %v", when, changes, err)
			}
		}
		planned("both work", withProbedUplinks(1), false)
		planned("both work, and wan becomes the dearer one", dear, true)
		dead.Store("lte", context.DeadlineExceeded)
		r.settle(time.Minute)
		planned("lte is dead", dear, false)
		r.apply(dear)
		r.settle(5 * time.Second)
		r.goesBy(1, "lte is dead", "wan")
		dead.Delete("lte")
		r.settle(time.Minute)
		r.goesBy(1, "lte works again", "lte")
		if changes, err := r.node.Plan(context.Background(), []byte(dear)); err != nil || len(changes) > 0 {
			t.Errorf("a plan of what runs: %+v, %v", changes, err)
		}
	})
}
