package controller

import (
	"testing"
	"time"

	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
)

// moving starts a fleet of five with staged rollouts and a tunnel that leads to n4.
func moving(r *rig) *Controller {
	c := r.start("a")
	r.fleetOf(c, 5)
	r.nodes["n4"].address = "2001:db8::1"
	r.nodes["n4"].connect(c)
	r.pass(10 * time.Second)
	r.write(c, ops.SetNodes{Modify: true, Overrides: r.doc(
		`{"n3":{"tunnelConfig":{"t":{"enabled":true,"localInterface":"nic1","dstNodeName":"n4","tunnelType":"GRE_L2","tunnelParams":{}}}}}`)})
	r.pass(10 * time.Minute)
	if got := r.leadsTo(c, "n3"); got != "2001:db8::1" || r.newest(c).State != "done" {
		r.Fatalf("it leads to %v, the rollout is %s", got, r.newest(c).State)
	}
	return c
}

// move makes n4 connect from another address.
func (r *rig) move(c *Controller) {
	r.nodes["n4"].address = "2001:db8::2"
	r.nodes["n4"].connect(c)
}

// paused starts an operator's rollout that is paused after its canary.
func (r *rig) paused(c *Controller) uint64 {
	r.behave("n0", silent)
	r.network(c, `{"envParams":{"B":"one"}}`)
	r.pass(2 * time.Second)
	number := r.newest(c).Revision
	r.rollout(c, number, fleetapi.PauseRollout)
	r.behave("n0", speaks)
	r.pass(time.Minute)
	return number
}

// What the controller writes by itself waits for the end of an operator's rollout.
func TestTheControllerWaitsForARollout(t *testing.T) {
	t.Parallel()
	onStaged(t, func(r *rig) {
		c := moving(r)
		number := r.paused(c)
		r.move(c)
		r.pass(40 * time.Minute)
		if d := r.newest(c); d.Revision != number || d.State != "paused" || r.leadsTo(c, "n3") != "2001:db8::1" {
			t.Errorf("rollout %d is %s, want %d: it leads to %v", d.Revision, d.State, number, r.leadsTo(c, "n3"))
		}
		r.rollout(c, number, fleetapi.ResumeRollout)
		r.pass(10 * time.Minute)
		d, err := c.ExplainRollout(r.Context(), number)
		if err != nil || d.State != "done" || d.Acked != 5 {
			t.Errorf("rollout %d is %s, %d have it, %v", number, d.State, d.Acked, err)
		}
		if d := r.newest(c); d.Revision != number+1 || d.State != "done" || r.leadsTo(c, "n3") != "2001:db8::2" {
			t.Errorf("rollout %d is %s: it leads to %v", d.Revision, d.State, r.leadsTo(c, "n3"))
		}
	})
}

// After an hour it waits no longer. A paused rollout stays paused, a halted one halted: the controller's own revision
// is no reason to push what has failed.
func TestTheControllerWaitsAnHour(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"paused", "halted"} {
		onStaged(t, func(r *rig) {
			c := moving(r)
			if state == "halted" {
				for _, n := range r.nodes {
					r.behave(n.name, func(n *fakeNode) { n.reject = "one" })
				}
			}
			if state == "paused" {
				r.paused(c)
			} else {
				r.network(c, `{"envParams":{"B":"one"}}`)
			}
			r.pass(5 * time.Minute)
			had := r.is(c, state, "one", "n0").Revision
			r.move(c)
			r.pass(70 * time.Minute)
			if d := r.newest(c); d.Revision == had || d.State != state || r.leadsTo(c, "n3") != "2001:db8::2" {
				t.Errorf("rollout %d is %s, want a later one than %d, %s: it leads to %v", d.Revision, d.State, had, state,
					r.leadsTo(c, "n3"))
			}
			if got := r.had("one"); got != "n0" {
				t.Errorf("%s: one was pushed to %s", state, got)
			}
		})
	}
}
