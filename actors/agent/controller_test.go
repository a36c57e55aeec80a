package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
)

// controller is the other side: it confirms what has settled, if it is there.
type controller struct {
	r     *rig
	mu    sync.Mutex
	said  []nodeproto.FromNode
	deaf  bool // it answers nothing
	noAck bool
	probe uint64
	want  config.Generation
	down  bool
}

func (c *controller) Send(m nodeproto.FromNode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return errors.New("stream closed")
	}
	c.said = append(c.said, m)
	if c.deaf {
		return nil
	}
	switch m := m.(type) {
	case nodeproto.Report:
		if p := m.Pending; p != nil && p.Settled && len(p.Worse) == 0 {
			c.probe++
			c.answer(nodeproto.Probe{Number: c.probe})
		}
	case nodeproto.Probed:
		if m.Number == c.probe && m.Generation == c.want && len(m.Worse) == 0 {
			c.answer(nodeproto.Confirm{Generation: c.want})
		}
	case nodeproto.Result:
		if !c.noAck && m.Outcome != nodeproto.Accepted && m.Outcome != nodeproto.Applied {
			c.answer(nodeproto.Ack{Attempt: m.Attempt})
		}
	}
	return nil
}

func (c *controller) wants(g config.Generation) { c.set(func(c *controller) { c.want = g }) }

// answer comes after a round trip.
func (c *controller) answer(m nodeproto.FromController) {
	a := c.r.agent
	time.AfterFunc(10*time.Millisecond, func() {
		c.mu.Lock()
		gone := c.down
		c.mu.Unlock()
		if !gone {
			a.Received(m)
		}
	})
}

// results are those that were said, in a few words each.
func (c *controller) results() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, m := range c.said {
		if r, ok := m.(nodeproto.Result); ok {
			out = append(out, fmt.Sprintf("%d %s", r.Attempt, r.Outcome))
		}
	}
	return out
}

func said[T nodeproto.FromNode](c *controller) []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []T
	for _, m := range c.said {
		if x, ok := m.(T); ok {
			out = append(out, x)
		}
	}
	return out
}

// set changes how it behaves.
func (c *controller) set(f func(*controller)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

// The end of a push and the question that follows are one step: one report says both.
func TestAnAppliedPushIsReportedOnce(t *testing.T) {
	onRig(t, func(r *rig) {
		r.connect()
		g := r.push(`{"a":1}`).Generation
		r.settle(time.Second)
		var pending []bool
		for _, m := range said[nodeproto.Report](r.ctl) {
			if m.Generation == g && m.Pending != nil {
				pending = append(pending, m.Pending.Settled)
			}
		}
		if !slices.Equal(pending, []bool{true}) {
			t.Errorf("reports of the pending config, by whether it has settled: %v", pending)
		}
	})
}

// heard is all that the node has said.
func (c *controller) heard() []nodeproto.FromNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.said)
}

// A controller that is there before the config file is validated hears of the node once it is decided what runs: it would
// take the node for one without a config, and what it pushes would remove what the file has.
func TestAControllerHearsOfAStartOnceItsConfigIsDecided(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		managed bool
		hangs   time.Duration
		runs    string
	}{
		"a new file":              {"a: 7\n", false, 2 * time.Second, `{ "a": 7 }`},
		"a faulty file":           {"bad: 7\n", false, 2 * time.Second, `{ "a": 1 }`},
		"a file of a managed one": {"a: 7\n", true, 2 * time.Second, `{ "a": 1 }`},
		"a disk that hangs":       {"a: 7\n", false, 2 * diskTimeout, `{ "a": 7 }`},
	} {
		t.Run(name, func(t *testing.T) { onRig(t, func(r *rig) { r.startsLate(c.file, c.managed, c.hangs, c.runs) }) })
	}
}

// startsLate starts a node that ran {a:1} with a file, on a disk that hangs for some time, and judges what its controller
// hears before and after it.
func (r *rig) startsLate(file string, managed bool, hangs time.Duration, runs string) {
	r.Helper()
	if managed {
		r.connect()
		r.push(`{"a":1}`)
	} else if err := r.apply(`{"a":1}`); err != nil {
		r.Fatal(err)
	}
	r.settle(time.Minute)
	r.stop()
	r.hasFile, r.file = true, []byte(file)
	free := make(chan struct{})
	if !managed {
		r.disk.hang = free
	}
	r.start()
	r.connect()
	r.agent.Received(nodeproto.Request{ID: 1, Kind: nodeproto.RequestConfig})
	synctest.Wait()
	if n := len(r.ctl.heard()); n > 0 && runs != `{ "a": 1 }` {
		r.Errorf("%d messages before it is decided what runs", n)
	}
	r.settle(hangs)
	close(free)
	r.settle(time.Minute)
	for _, m := range r.ctl.heard() {
		if a, is := m.(nodeproto.Answer); is {
			if got := strings.Join(strings.Fields(string(a.Data)), " "); got != runs {
				r.Errorf("it runs %s, want %s", got, runs)
			}
			return
		}
	}
	r.Errorf("no answer: %v", r.ctl.heard())
}
