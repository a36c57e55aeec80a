package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

func (r *rig) explain(kind, id string) nodeapi.Explanation {
	r.Helper()
	x, err := r.node.Explain(context.Background(), kind, id)
	if err != nil {
		r.Fatalf("explain %s/%s: %v", kind, id, err)
	}
	return x
}

// leaf returns the cause at the end of the first chain.
func leaf(x nodeapi.Explanation) nodeapi.Cause {
	last := nodeapi.Cause{Causes: x.Causes}
	for len(last.Causes) > 0 {
		last = last.Causes[0]
	}
	return last
}

func opFails(kind netstate.Kind, why string) func(netstate.Owner, netstate.Op) *fake.OpFault {
	return func(o netstate.Owner, op netstate.Op) *fake.OpFault {
		if o.Number > 0 && op.Kind == kind {
			return &fake.OpFault{Err: errors.New(why)}
		}
		return nil
	}
}

func TestExplainLeadsFromAnAppToTheOpThatFailed(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.host.SetFault(opFails(netstate.KindChain, "line 3 failed"))
		r.apply(doc(1, 1))
		r.settle(2 * time.Second)
		for _, of := range [][2]string{{"ni", niID(1)}, {"app", appID(1)}, {"app", appID(1) + "/0"},
			{"adapter", appID(1) + "/0"}, {"ni", strings.ToUpper(niID(1))}} {
			x := r.explain(of[0], of[1])
			c := leaf(x)
			if x.Ready || c.Error != "line 3 failed" || c.Command != "fake-command" ||
				!strings.HasPrefix(c.Op, "change chain ") || c.Attempts < 3 || c.Since == nil {
				t.Errorf("%s: %+v ends with %+v", of, x, c)
			} else if c.Retry == nil || !c.Retry.After(time.Now()) || c.Retry.After(time.Now().Add(5*time.Second)) {
				t.Errorf("%s: the retry is at %v, now it is %v", of, c.Retry, time.Now())
			}
		}
		r.host.SetFault(nil)
		r.ready(5*time.Second, "app/"+appID(1))
		for _, of := range [][2]string{{"ni", niID(1)}, {"app", appID(1)}, {"adapter", appID(1) + "/0"}} {
			if x := r.explain(of[0], of[1]); !x.Ready || len(x.Causes) > 0 || !strings.HasPrefix(x.Summary, "ready: ") {
				t.Errorf("%s: %+v", of, x)
			}
		}
	})
}

func TestExplainNamesWhatAnAdapterWaitsFor(t *testing.T) {
	const noPort = "ports:\n  wan: {ifName: eth9, uplink: true}\n"
	app := doc(1, 1)[len(doc(1, 0)):]
	for name, c := range map[string]struct {
		doc    string
		before func(r *rig)
		kind   string
		id     string
		object string // of the last cause
		text   string // in it
	}{
		"a namespace": {doc: doc(1, 1), kind: "app", id: appID(1), text: "add link es1a1"},
		"a network that is in no config": {
			doc: doc(0, 0) + app, kind: "adapter", id: appID(1) + "/0", object: "ni/" + niID(1), text: "is not in the config",
		},
		"a port": {
			doc: noPort + doc(1, 0)[len(doc(0, 0)):], kind: "ni", id: niID(1), object: "port/wan", text: "no interface eth9",
		},
		"an uplink without an address": {
			before: func(r *rig) { r.host.SetInterfaces(netstate.Interface{Name: "uplink0", Up: true, MTU: 1500}) },
			doc:    doc(1, 0), kind: "ni", id: niID(1), object: "port/wan", text: "has no IPv4 address",
		},
		"an address": {
			doc:  strings.NewReplacer("10.1.0.0/24}", "10.1.0.0/29, dhcpRange: 10.1.0.2-10.1.0.2}").Replace(doc(1, 2)),
			kind: "app", id: appID(2),
			object: "ni/" + niID(1), text: "no free IP addresses",
		},
		"the host ground": {
			before: func(r *rig) {
				r.host.SetFault(func(o netstate.Owner, op netstate.Op) *fake.OpFault {
					if o.Number == 0 && op.Kind == netstate.KindChain {
						return &fake.OpFault{Err: errors.New("no iptables here")}
					}
					return nil
				})
			},
			doc: doc(1, 0), kind: "ni", id: niID(1), text: "change chain",
		},
		"an answer": {
			before: func(r *rig) {
				r.netns("ns1")
				r.host.SetFault(func(o netstate.Owner, op netstate.Op) *fake.OpFault {
					if o.Number > 0 && op.Kind == netstate.KindProcess {
						return &fake.OpFault{Hang: true}
					}
					return nil
				})
			},
			doc: doc(1, 1), kind: "adapter", id: appID(1) + "/0", object: "ni/" + niID(1),
			text: "has not answered version 1, asked at 00:00:0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				if c.before != nil {
					c.before(r)
				}
				if name != "a namespace" {
					r.netns("ns1", "ns2")
				}
				r.apply(c.doc)
				r.settle(1500 * time.Millisecond)
				x := r.explain(c.kind, c.id)
				found := false
				eachCause(x.Causes, func(k nodeapi.Cause) {
					found = found || strings.Contains(k.Text, c.text) && k.Object == c.object
				})
				if x.Ready || !found {
					t.Errorf("%+v has no cause of %q with %q", x, c.object, c.text)
				}
			})
		})
	}
}

func eachCause(cs []nodeapi.Cause, f func(nodeapi.Cause)) {
	for _, c := range cs {
		f(c)
		eachCause(c.Causes, f)
	}
}

func TestExplainShowsWhatAReadyNetworkDoesWithout(t *testing.T) {
	onRig(t, func(r *rig) {
		lame := strings.Replace(doc(1, 0), "dns: {domain: edge}",
			"routes: {lab: {destination: 198.18.0.0/15, gateway: 203.0.113.9}}", 1)
		for text, want := range map[string]string{doc(1, 0): "",
			lame: "route lab is left out: gateway 203.0.113.9 is on no subnet of port wan (uplink0)"} {
			r.apply(text)
			r.ready(time.Second, "ni/"+niID(1))
			x := r.explain("ni", niID(1))
			if !x.Ready || x.Warning != want || len(x.Causes) > 0 {
				t.Errorf("%+v, want the warning %q", x, want)
			}
		}
	})
}

func TestExplainOfWhatIsUnknownIsNotFound(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		for of, says := range map[[2]string]string{
			{"ni", niID(9)}: "neither in the config", {"app", appID(9)}: "neither in the config",
			{"app", appID(1) + "/7"}: "has the adapters 0", {"adapter", appID(9) + "/0"}: "the app is not in the config",
			{"adapter", appID(1) + "/x"}: "<app>/<index>", {"port", "lan"}: "the ports are wan",
			{"host", "x"}: "must be ni, app, adapter or port",
		} {
			if _, err := r.node.Explain(context.Background(), of[0], of[1]); !errors.Is(err, rest.ErrNotFound) ||
				!strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", of, err, says)
			}
		}
	})
}

// In every random state of a node, explain and wait agree, and what is not ready has a cause.
func TestExplainAgreesWithReady(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns3")
		r.host.SetFault(func(o netstate.Owner, op netstate.Op) *fake.OpFault {
			if o.Name == niID(2) && op.Kind == netstate.KindAddress {
				return &fake.OpFault{Err: errors.New("no")}
			}
			return nil
		})
		for _, d := range []string{doc(3, 4), doc(2, 4), strings.Replace(doc(3, 4), "activate: true", "activate: false", 2),
			doc(3, 2), "{}"} {
			r.apply(d)
			for range 40 {
				for id := range map[string]bool{niID(1): true, niID(2): true, niID(3): true} {
					r.agree("ni", id)
				}
				for i := 1; i <= 4; i++ {
					r.agree("app", appID(i))
				}
				r.settle(25 * time.Millisecond)
			}
		}
	})
}

func (r *rig) agree(kind, id string) {
	r.Helper()
	got, err := r.node.Ready(context.Background(), kind, id)
	if err != nil {
		r.Fatal(err)
	}
	x, err := r.node.Explain(context.Background(), kind, id)
	switch {
	case errors.Is(err, rest.ErrNotFound):
		if got.Ready {
			r.Errorf("%s/%s is ready and not found", kind, id)
		}
	case err != nil:
		r.Fatal(err)
	case x.Ready != got.Ready || x.Ready != (len(x.Causes) == 0):
		r.Errorf("%s/%s: ready %v, explained as %+v", kind, id, got, x)
	}
}

// The explanation of a network that is not activated says so.
func TestExplainOfANetworkThatIsNotActivated(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(strings.Replace(doc(1, 0), "type: local", "type: local, activate: false", 1))
		r.ready(time.Second, "ni/"+niID(1))
		if x := r.explain("ni", niID(1)); !strings.HasSuffix(x.Summary, ", not activated") {
			t.Errorf("explained as %q", x.Summary)
		}
	})
}
