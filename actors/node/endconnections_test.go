package node

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/netinst/netstate"
)

// ending records which apps' connections end, and when.
type ending struct {
	mu          sync.Mutex
	netns       []string
	began, last time.Time
}

func (e *ending) add(netns string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.netns = append(e.netns, netns); e.began.IsZero() {
		e.began = time.Now()
	}
	e.last = time.Now()
}

func (e *ending) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.netns)
}

// Twenty apps, of which all or one can't end its connections, delay their own network by 5 s altogether and nothing
// else.
func TestTheEndOfConnectionsIsBoundForAllAppsTogether(t *testing.T) {
	const apps = 20
	for name, hangs := range map[string]func(netns string) bool{
		"all hang":  func(string) bool { return true },
		"one hangs": func(netns string) bool { return netns == "ns7" },
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				for a := range 2 * apps {
					r.netns(fmt.Sprint("ns", a+1))
				}
				dead := r.setUplinks()
				config := strings.ReplaceAll(withLTE(doc(2, 2*apps)), "port: wan", "port: uplink") // odd apps on network 1
				r.apply(config)
				r.ready(30*time.Second, "ni/"+niID(1), "ni/"+niID(2))
				r.settle(30 * time.Second)
				r.host.SetFlows(r.flowsByWan(1)...)
				var e ending
				r.host.SetEndConnections(func(ctx context.Context, netns string, flows []netstate.Flow) error {
					if e.add(netns); len(flows) != 1 {
						t.Errorf("%d flows of %s", len(flows), netns)
					}
					if hangs(netns) {
						<-ctx.Done()
					}
					return ctx.Err()
				})
				dead.Store("wan", silent)
				for range 100 {
					if r.settle(50 * time.Millisecond); e.count() > 0 {
						break
					}
				}
				r.apply(strings.ReplaceAll(config, "domain: edge", "domain: other"))
				r.ready(100*time.Millisecond, "ni/"+niID(2))
				r.ready(resetDeadline+time.Second, "ni/"+niID(1))
				r.goesBy(1, "its port is dead", "lte")
				slices.Sort(e.netns)
				if n := len(slices.Compact(e.netns)); n != apps {
					t.Errorf("the connections of %d apps end, want %d", n, apps)
				}
				if took := e.last.Sub(e.began); took > resetDeadline {
					t.Errorf("they take %v, want at most %v", took, resetDeadline)
				}
			})
		})
	}
}

// flowsByWan returns one TCP connection by the port wan of each app on a network.
func (r *rig) flowsByWan(n int) (flows []netstate.Flow) {
	for _, s := range r.node.d.topics.AdapterStatus.List(niID(n)) {
		far := netip.MustParseAddrPort("198.51.100.80:443")
		flows = append(flows, netstate.Flow{Proto: 6, Src: netip.AddrPortFrom(s.Link.IP, 40000), Dst: far, ReplySrc: far,
			ReplyDst: netip.MustParseAddrPort("192.0.2.2:40000")})
	}
	return flows
}
