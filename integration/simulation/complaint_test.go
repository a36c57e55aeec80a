package simulation

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
)

// Each judge complains about a world in which what it judges is wrong.
func TestJudgesComplain(t *testing.T) {
	for _, c := range []struct {
		name, want string
		wrong      func(*town) []string
	}{
		{"a drain that is longer than a person wanted", "port wan is still drained", func(w *town) []string {
			if _, err := w.life.node.Drain(context.Background(), "wan", nodeapi.DrainOptions{For: time.Hour}); err != nil {
				return []string{err.Error()}
			}
			w.drains["wan"] = &drained{time.Minute, time.Now().Add(time.Minute)}
			time.Sleep(time.Minute + beat + time.Second)
			w.lateDrains()
			return w.faults
		}},
		{"a network that stays on a dear uplink", "uplink1:2], want uplink0", func(w *town) []string {
			lost := uplink(0)
			lost.Addresses, lost.DefaultRoutes = nil, nil
			w.setInterfaces("uplink0", &lost)
			time.Sleep(time.Minute)
			return w.wrongUplinks()
		}},
		{"a DNS server that answers no more", networkID(1), func(w *town) []string {
			for id := range w.host.State(1) {
				if id.Kind == netstate.KindProcess {
					w.host.SetBroken(1, netstate.OpFailure{ID: id, Observe: true, Err: "self-test: no answer"})
				}
			}
			time.Sleep(3 * time.Minute)
			return w.wrong()
		}},
		{"a network of no config", "which is none of the config", func(w *town) []string {
			w.want = scene{}
			return w.wrong()
		}},
		{"a network that is not there", "network 2 has no bridge", func(w *town) []string {
			w.want = scene{networks: map[int]int{1: 0, 2: 0}}
			return w.wrong()
		}},
		{"something is left", "an empty config leaves of owner 1", func(w *town) []string {
			w.leavesNothing()
			return w.faults
		}},
		{"a hungry watchdog", "the watchdog was not fed", func(w *town) []string {
			w.life.late = watchdog + 1
			w.look()
			return w.faults
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTown()
				w.apply(scene{networks: map[int]int{1: 0}}, false)
				w.settle()
				w.look()
				right := slices.Concat(w.faults, w.wrongUplinks())
				got := c.wrong(w)
				w.leave()
				if len(right) > 0 || !strings.Contains(strings.Join(got, "\n"), c.want) {
					t.Errorf("before: %q; then %q, want %q", right, got, c.want)
				}
			})
		})
	}
}
