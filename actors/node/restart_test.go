package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// After a restart there is no status of an adapter. Its observed state counts, even if the first apply of its network
// fails elsewhere.
func TestAWorkingAdapterIsActivatedThoughItsNetworkFailsAfterARestart(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		r.stop()
		r.host.RemoveSilently(1, netstate.ID{Kind: netstate.KindProcess, Name: "ni/1/dnsmasq"})
		r.host.SetFault(func(_ netstate.Owner, op netstate.Op) *fake.OpFault {
			if op.Kind == netstate.KindProcess || op.Kind == netstate.KindLink {
				return &fake.OpFault{Err: errors.New("injected")}
			}
			return nil
		})
		r.start()
		r.settle(time.Second)
		app := func(i int) nodeapi.AppStatus {
			apps, err := r.node.List(context.Background(), "app")
			if err != nil || len(apps) <= i {
				t.Fatalf("apps %v, %v", apps, err)
			}
			return apps[i].Status.(nodeapi.AppStatus)
		}
		if st := app(0); len(st.Adapters) != 1 || !st.Adapters[0].Activated ||
			!strings.Contains(st.Adapters[0].Error, "is not ready") {
			t.Errorf("the adapter that stands is %+v", st)
		}
		if got, _ := r.node.Ready(context.Background(), "app", appID(1)); got.Ready {
			t.Error("an app is ready on a network that is not")
		}

		// Another adapter, which is incomplete, is not activated.
		r.netns("ns2")
		r.apply(doc(1, 2))
		r.settle(time.Second)
		if st := app(1); !st.Pending || st.Adapters[0].Activated || !strings.Contains(st.Adapters[0].Error, "injected") {
			t.Errorf("the adapter whose link can't be made is %+v", st)
		}
		// Nor is one whose link is missing.
		r.host.RemoveSilently(1, netstate.ID{Kind: netstate.KindLink, Name: "es1a1"})
		r.stop()
		r.start()
		r.settle(time.Second)
		if st := app(0); st.Adapters[0].Activated {
			t.Errorf("the adapter whose link has gone is %+v", st)
		}
		r.host.SetFault(nil)
		r.host.Resync()
		r.ready(2*time.Minute, "app/"+appID(1), "app/"+appID(2))
	})
}

// lateHost reports by which links it forwards only once late is closed, and does not find the network of number 2.
type lateHost struct {
	Host
	late chan struct{}
}

func (h *lateHost) Watch(ctx context.Context, emit func(netstate.HostEvent)) error {
	return h.Host.Watch(ctx, func(ev netstate.HostEvent) {
		if f := ev.Forwarding; f != nil {
			ev.Forwarding = nil
			go func() {
				select {
				case <-ctx.Done():
				case <-h.late:
					emit(netstate.HostEvent{Forwarding: f})
				}
			}()
		}
		emit(ev)
	})
}

func (h *lateHost) Owners(ctx context.Context) ([]netstate.Owner, error) {
	all, err := h.Host.Owners(ctx)
	return slices.DeleteFunc(all, func(o netstate.Owner) bool { return o.Number == 2 }), err
}

// putHook is a journal that calls a function before the number of a network is written.
type putHook struct {
	*fake.Journal
	before func()
}

func (j *putHook) Put(topic, key string, v []byte) error {
	if topic == "network-instance-number" {
		j.before()
	}
	return j.Journal.Put(topic, key, v)
}

// The router learns by which links the host forwards while it is busy with the networks of the config. It must not apply
// the host state as if there were none: that would close the uplink for a moment.
func TestARestartClosesNoPortWhenForwardingIsReportedLate(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(2, 0))
		r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2))
		r.stop()
		r.journal.Lose("network-instance-number")
		r.host.Done() // what was done once
		h, read, puts := &lateHost{Host: r.host, late: make(chan struct{})}, make(chan struct{}), 0
		r.files.Block(read)
		r.change = func(o *Options) {
			o.Host, o.Journal = h, &putHook{r.journal, func() { // by the router
				switch puts++; puts {
				case 1: // of the network that was found: now the config arrives
					close(read)
				case 2: // of the other one, in the turn that ends with the config known
					close(h.late)
				}
				time.Sleep(time.Second) // on the fake clock: until all others have done what they can
			}}
		}
		r.start()
		r.settle(5 * time.Second)
		r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2))
		if got := r.host.Done(); puts != 2 || len(got) > 0 {
			t.Errorf("%d numbers were written, and the host was changed: %q", puts, got)
		}
	})
}

// lateInterfaces reports the host's addresses a second after all else.
type lateInterfaces struct{ Host }

func (h *lateInterfaces) Watch(ctx context.Context, emit func(netstate.HostEvent)) error {
	return h.Host.Watch(ctx, func(ev netstate.HostEvent) {
		if ev.Resync {
			late := ev
			time.AfterFunc(time.Second, func() { emit(late) })
			ev.Resync, ev.Interfaces = false, nil
		}
		emit(ev)
	})
}

// A network whose subnet belongs to the host is withdrawn before and after a restart, and in between.
func TestARestartFiltersNothingOfTheHostWhenAddressesAreReportedLate(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		r.host.SetInterfaces(foreign("uplink0", "192.0.2.2/24", "10.1.0.77/24"))
		r.settle(time.Minute)
		r.stop()
		r.host.Done() // what was done once
		r.change = func(o *Options) { o.Host = &lateInterfaces{r.host} }
		r.start()
		r.settle(5 * time.Second)
		if got := r.host.Done(); len(got) > 0 {
			t.Errorf("the host was changed: %q", got)
		}
		if got, _ := r.node.Ready(context.Background(), "ni", niID(1)); got.Ready {
			t.Error("the network is ready")
		}
	})
}
