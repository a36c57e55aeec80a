package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
)

const aNetwork = "10000000-0000-4000-8000-00000000000a"

// TestTheStateOfDeclaredParametersIsShown follows a network from its config to its removal, in the list of nodes and in
// the description of one.
func TestTheStateOfDeclaredParametersIsShown(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.synced(c, "n1", "n2")
		n := r.nodes["n1"]
		ni := func(state, detail string) []nodeproto.ParameterReport {
			return []nodeproto.ParameterReport{{ID: "ni/" + aNetwork, Kind: "network-instance", State: state, Detail: detail}}
		}
		layer := `{"n1":{"networkInstances":{"` + aNetwork + `":{"type":"switch","port":""}}}}`
		for _, step := range []struct {
			name, layer string
			says        []nodeproto.ParameterReport
			want        string // parameters
			ready       bool
			why         string
		}{
			{"nothing is declared", `{}`, nil, "[]", true, ""},
			{"not reported yet", layer, nil, "[present Creating no]", false, "Creating"},
			{"failed", layer, ni("CreatingFailed", "no port"), "[present CreatingFailed yes]", false, "CreatingFailed: no port"},
			{"there", layer, ni("Present", ""), "[present Present no]", true, ""},
			{"deleted, and still there", `{}`, ni("Present", ""), "[absent Removing no]", false, "Removing"},
			{"can't be removed", `{}`, ni("RemovingFailed", "busy"), "[absent RemovingFailed yes]", false,
				"RemovingFailed: busy"},
			{"gone", `{}`, nil, "[]", true, ""},
			{"of a kind that no config declares", `{}`, []nodeproto.ParameterReport{{ID: "x", Kind: "x", State: "Present"}},
				"[]",
				true, ""},
		} {
			n.mu.Lock()
			n.parameters = step.says
			n.mu.Unlock()
			r.write(c, ops.SetNodes{Overrides: r.doc(strings.Replace(step.layer, "{}", `{"n1":{}}`, 1))})
			r.pass(10 * time.Second)
			r.wants(c, "n1", "InSync")
			d, err := c.Node(r.Context(), "n1")
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, p := range d.Parameters {
				got = append(got, fmt.Sprint(p.Target, " ", p.State, " ", p.Review))
			}
			if fmt.Sprint(got) != step.want {
				t.Errorf("%s: %v, want %s", step.name, got, step.want)
			}
			list, err := c.Nodes(r.Context())
			if err != nil || len(list) != 2 || !list[1].Ready {
				t.Fatalf("%s: %+v %v", step.name, list, err)
			}
			if one := list[0]; one.Ready != step.ready || d.Ready != step.ready || !strings.Contains(one.Why, step.why) ||
				one.Ready == strings.Contains(one.Why, "not ready") {
				t.Errorf("%s: ready %v: %s", step.name, one.Ready, one.Why)
			}
		}
		n.cut()
		r.pass(time.Second)
		if list, _ := c.Nodes(r.Context()); list[0].Ready {
			t.Error("a node that is away is ready")
		}
	})
}

// What a node reports and no config declares is logged once, and again when it changes, not with each report.
func TestAnIgnoredParameterIsLoggedOnce(t *testing.T) {
	onRig(t, func(r *rig) {
		core, logs := observer.New(zap.InfoLevel)
		r.change = func(o *Options) { o.Log = zap.New(core) }
		c := r.start("a")
		r.synced(c, "n1")
		n := r.nodes["n1"]
		lines := func() []string {
			var out []string
			for _, e := range logs.FilterMessage("a node reports parameters that none of its configs declares").All() {
				m := e.ContextMap()
				out = append(out, fmt.Sprint(m["parameter"], " ", m["state"], " ", m["review"]))
			}
			return out
		}
		first, second := []string{"x Present maybe"}, []string{"x Present maybe", "x CreatingFailed yes"}
		for i, step := range []struct {
			says []nodeproto.ParameterReport
			want []string
		}{
			{[]nodeproto.ParameterReport{{ID: "x", Kind: "x", State: "Present"}}, first},
			{[]nodeproto.ParameterReport{{ID: "x", Kind: "x", State: "Present"}}, first},
			{[]nodeproto.ParameterReport{{ID: "x", Kind: "x", State: "Present"},
				{ID: "ni/" + aNetwork, Kind: "network-instance", State: "Removing"}}, first},
			{[]nodeproto.ParameterReport{{ID: "x", Kind: "x", State: "CreatingFailed"}}, second},
			{[]nodeproto.ParameterReport{{ID: "x", Kind: "x", State: "CreatingFailed"}}, second},
		} {
			n.mu.Lock()
			n.parameters = step.says
			n.mu.Unlock()
			r.pass(2 * time.Minute)
			d, err := c.Node(r.Context(), "n1")
			if err != nil {
				t.Fatal(err)
			}
			if got := lines(); fmt.Sprint(got) != fmt.Sprint(step.want) {
				t.Errorf("step %d: the log has %q, want %q; the node's parameters are %+v", i, got, step.want, d.Parameters)
			}
		}
	})
}
