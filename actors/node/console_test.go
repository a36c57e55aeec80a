package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/actors/node/console"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/probe"
	"edgespan/pubsub/loglevel"
	"edgespan/pubsub/shellproto"
)

// operator is a debug shell without the remoting.
type operator struct {
	*rig
	c *console.Console
}

func (r *rig) operator() operator {
	levels := loglevel.New(LogNames(), loglevel.Info, func(loglevel.Change) {})
	return operator{r, r.node.Console(levels, nil)}
}

var root = shellproto.Who{UID: 0, PID: 77, Admin: true}

// do returns the answers of a command, one a line, and its error.
func (o operator) do(words ...string) (string, error) {
	var out strings.Builder
	err := o.c.Do(context.Background(), root, shellproto.Request{Op: words[0], Args: words[1:]},
		func(v any, _ uint64) error {
			text, err := json.Marshal(v)
			fmt.Fprintf(&out, "%s\n", text)
			return err
		})
	return out.String(), err
}

// follow begins a stream and returns what returns its answers so far.
func (o operator) follow(words ...string) func() string {
	o.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var out strings.Builder
	ended := make(chan error, 1)
	go func() {
		ended <- o.c.Do(ctx, root, shellproto.Request{Op: words[0], Args: words[1:]}, func(v any, dropped uint64) error {
			text, err := json.Marshal(v)
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(&out, "%s %d\n", text, dropped)
			return err
		})
	}()
	o.settle(0)
	return func() string {
		o.settle(time.Second) // what is collected is sent together
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			o.Errorf("%v: %v", words, err)
		}
		mu.Lock()
		defer mu.Unlock()
		return out.String()
	}
}

// The state of every actor can be shown while it works, and none shows a secret of the config.
func TestEveryActorShowsItsStateWithoutSecrets(t *testing.T) {
	onRig(t, func(r *rig) {
		o := r.operator()
		tree, err := o.do("tree")
		if err != nil {
			r.Fatal(err)
		}
		r.apply(vpnDoc(2))
		r.ready(10*time.Second, "ni/"+niID(1), "ni/"+niID(2))
		if tree, err = o.do("tree"); err != nil {
			r.Fatal(err)
		}
		var all []shellproto.Actor
		if err := json.Unmarshal([]byte(tree), &all); err != nil || len(all) < 15 {
			r.Fatalf("%d actors, %v", len(all), err)
		}
		seen := 0
		for _, a := range all {
			r.settle(250 * time.Millisecond) // questions have a rate
			got, err := o.do("inspect", a.ID)
			if err != nil {
				r.Errorf("%s: %v", a.ID, err)
			}
			if strings.Contains(got, "secret-canary") {
				r.Errorf("%s shows the secret: %s", a.ID, got)
			}
			if strings.Contains(got, "[redacted]") {
				seen++
			}
		}
		if seen < 2 { // the two bridge managers hold it
			r.Errorf("%d actors show that there is a secret", seen)
		}
		r.settle(time.Second)
		got, err := o.do("inspect", "ni/net1")
		if err != nil || !strings.Contains(got, `"DisplayName":"net1"`) || !strings.Contains(got, `"mgr":{`) {
			r.Errorf("%v: %.2000s", err, got)
		}
		for _, topic := range []string{"network-instance-config", "network-instance-status"} {
			all := o.follow("watch", topic, niID(1))()
			if strings.Contains(all, "secret-canary") || strings.Count(all, niID(1)) < 1 || strings.Contains(all, niID(2)) {
				r.Errorf("watch %s: %s", topic, all)
			}
		}
	})
}

func TestATraceGoesFromTheConfigToTheOps(t *testing.T) {
	onRig(t, func(r *rig) {
		o := r.operator()
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		trace, other, tail := o.follow("trace"), o.follow("trace", "net1"), o.follow("tail", "ni/net1")
		r.apply(doc(2, 1))
		r.ready(10*time.Second, "ni/"+niID(2))
		got := trace()
		at := 0
		for _, want := range []string{`"where":"config","what":"accepted`,
			`"where":"ni/` + niID(2) + `","what":"compares`, `"depth":2,"where":"ni/` + niID(2) + `","what":"add`,
			`"what":"ops done: `} {
			i := strings.Index(got[at:], want)
			if i < 0 {
				r.Errorf("%s is missing, or too early, in\n%s", want, got)
				break
			}
			at += i
		}
		if all := other(); strings.Contains(all, niID(2)) || !strings.Contains(all, niID(1)) {
			r.Errorf("the trace of another network:\n%s", all)
		}
		if all := tail(); !strings.Contains(all, `"way":"in","type":"node.wake"`) ||
			!strings.Contains(all, `"way":"out","type":"manager.Apply"`) {
			r.Errorf("tail:\n%s", all)
		}
	})
}

func TestWhatChangesSomethingIsDoneAndAudited(t *testing.T) {
	onRig(t, func(r *rig) {
		o := r.operator()
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		trace := o.follow("trace", "net1")
		for _, c := range []struct{ words, want, err string }{
			{"reconcile net1", "compares the host with its desired state now", ""},
			{"reprobe net1", "sends its probes now", ""},
			{"restart ni/net1", "restarts", ""},
			{"restart router", "", "router: without it the daemon ends"},
			{"restart nothing", "", `"nothing": no such actor`},
			{"reconcile nothing", "", `"nothing": no such network`},
			{"loglevel probe debug 1m", "probe logs at level debug for 1m0s", ""},
			{"loglevel probe loud", "", `level: invalid value "loud"`},
			{"fault hang net1 30s", "", "started without --allow-faults"},
		} {
			got, err := o.do(strings.Fields(c.words)...)
			if c.err == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) ||
				!strings.Contains(got, c.want) {
				r.Errorf("%s: %q, %v", c.words, got, err)
			}
			r.settle(0)
		}
		r.settle(time.Second)
		if all := trace(); strings.Count(all, "compares with the host") < 2 { // reconcile, and after the restart
			r.Errorf("trace:\n%s", all)
		}
		if a := r.node.d.census.List(); !slices.ContainsFunc(a, func(a nodeapi.ActorStatus) bool {
			return a.ID == "router/ni/"+niID(1) && a.Crashes == 1 && a.State == "running"
		}) {
			r.Errorf("actors: %+v", a)
		}
		var audited []string
		for _, e := range r.node.Topics().Events.All() {
			if e.Value.Kind == nodeapi.EventShell {
				audited = append(audited, fmt.Sprint(e.Value.Object, " ", e.Value.Text, " by ", e.Value.Cause.By,
					" failed ", e.Value.Error != ""))
			}
		}
		if len(audited) != 9 || audited[0] != "ni/"+niID(1)+" reconcile net1 by uid 0, pid 77 failed false" ||
			audited[3] != "actor/router restart router by uid 0, pid 77 failed true" {
			r.Errorf("audited: %q", audited)
		}
	})
}

// What all shells together may cost the actors is bounded: streams in number, and questions by a rate.
func TestWhatShellsMayCostIsBounded(t *testing.T) {
	onRig(t, func(r *rig) {
		o := r.operator()
		var ends []func() string
		for range 64 {
			ends = append(ends, o.follow("tail", "monitor"))
		}
		if _, err := o.do("tail", "monitor"); err == nil || !strings.Contains(err.Error(), "64 streams are under way") {
			r.Errorf("one more: %v", err)
		}
		for _, end := range ends {
			end()
		}
		if again := o.follow("tail", "monitor"); again() != "" {
			r.Error("what was over is counted")
		}
		asked := 0
		for range 100 {
			if _, err := o.do("inspect", "monitor"); err == nil {
				asked++
			} else if !strings.Contains(err.Error(), "too many questions") {
				r.Error(err)
			}
		}
		if asked != 20 {
			r.Errorf("%d of 100 questions at once were passed on", asked)
		}
		r.settle(time.Second)
		if _, err := o.do("inspect", "monitor"); err != nil {
			r.Error(err)
		}
	})
}

// A reprobe sends at once what would be sent later.
func TestAReprobeSendsProbesNow(t *testing.T) {
	onRig(t, func(r *rig) {
		o := r.operator()
		r.probedUplinks(1)
		var shots atomic.Int64
		r.host.SetProbes(func(probe.ID) error { shots.Add(1); return nil })
		r.settle(30 * time.Second)
		before := shots.Load()
		r.settle(time.Millisecond)
		if n := shots.Load(); n != before {
			r.Fatalf("%d shots in a millisecond", n-before)
		}
		if _, err := o.do("reprobe", "net1"); err != nil {
			r.Fatal(err)
		}
		if r.settle(time.Millisecond); shots.Load() == before {
			r.Error("no shot")
		}
	})
}
