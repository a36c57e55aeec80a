package override

import (
	"strings"
	"testing"

	"edgespan/config"
)

// Layers of any kind that change together are judged together.
func TestBetweenTwoWorlds(t *testing.T) {
	const base = `{"n":1,"s":"x","o":{"must":1},"m":{}}`
	for _, tt := range []struct{ name, network, auto, own, want, faults string }{
		{"nothing", `{}`, `{}`, `{}`, "", ""},
		{"an auto layer", `{}`, `{"n":2}`, `{}`, "n1: n 1 to 2 by auto", ""},
		{"hidden by another layer", `{}`, `{"n":2}`, `{"n":3}`, "n1: n 1 to 3 by node", ""},
		{"the network", `{"n":2}`, `{}`, `{}`, "n1: n 1 to 2 by network; n2: n 1 to 2 by network", ""},
		{"all of them", `{"s":"y"}`, `{"n":2}`, `{"o":{"must":2}}`,
			"n1: n 1 to 2 by auto, o.must 1 to 2 by node, s \"x\" to \"y\" by network; n2: s \"x\" to \"y\" by network", ""},
		{"a fault", `{}`, `{"n":11}`, `{}`, "n1: n 1 to 11 by auto",
			"n1: n: invalid value 11: must be an integer from 1 to 10 (range, auto layer)"},
		{"marks are not looked at", `{}`, `{"dep":"x"}`, `{}`, "n1: dep null to \"x\" by auto", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			was := world(t, base, `{}`, `{}`)
			now := world(t, base, tt.network, tt.own)
			now.Nodes["n1"] = Node{Auto: parse(t, tt.auto), Own: parse(t, tt.own)}
			effects, _, faults := DifferenceEffects(was, now)
			var all []string
			for _, e := range effects {
				var values []string
				for _, v := range e.Values {
					values = append(values, config.FormatPath(v.Path)+" "+show(v.Old)+" to "+show(v.New)+" by "+v.Origin.String())
				}
				for _, n := range e.Nodes {
					all = append(all, n+": "+strings.Join(values, ", "))
				}
			}
			if got := strings.Join(all, "; "); got != tt.want || faults.Error() != tt.faults {
				t.Errorf("%s\nwant %s\nfaults %v", got, tt.want, faults)
			}
		})
	}
}

func TestTheAutoLayerFollowsTheNodeLayer(t *testing.T) {
	w := world(t, `{"n":1}`, `{}`, `{}`)
	c := one(t, `node set {"n1":{"s":"y"}}`)
	c.Auto = func(node string, own config.Object) config.Object { return config.Object{"n": int64(len(own)) + 1} }
	r, faults := Apply(w, c)
	if faults != nil || show(r.Autos["n1"]) != `{"n": 2}` || len(r.Effects) != 1 || len(r.Effects[0].Values) != 2 {
		t.Errorf("%v: %+v", faults, r)
	}
	for _, tt := range []struct {
		old, after config.Object
		follows    bool
	}{
		{nil, nil, false},
		{nil, config.Object{}, true},
		{config.Object{"n": int64(2)}, config.Object{"n": int64(2)}, false},
		{config.Object{"n": int64(2)}, config.Object{"n": int64(3)}, true},
		{config.Object{"n": int64(2)}, nil, true},
	} {
		w.Nodes["n1"] = Node{Auto: tt.old}
		c.Auto = func(string, config.Object) config.Object { return tt.after }
		r, faults := Apply(w, c)
		if _, follows := r.Autos["n1"]; faults != nil || follows != tt.follows {
			t.Errorf("from %s to %s: %v: %v", show(tt.old), show(tt.after), faults, r.Autos)
		}
	}
	c.Auto = func(string, config.Object) config.Object { return config.Object{"n": int64(11)} }
	if _, faults = Apply(w,
		c); faults.Error() != "n1: n: invalid value 11: must be an integer from 1 to 10 (range, auto layer)" {
		t.Error(faults)
	}
}

func TestAFileWithoutLayers(t *testing.T) {
	m := world(t, `{}`, `{}`, `{}`).Metadata
	old := parse(t, `{"n":1,"pw":"x","dep":"old"}`)
	for _, tt := range []struct {
		op            Op
		request, want string
	}{
		{Set, `{"n":2,"pw":{"$masked":true}}`, `{"n": 2,"pw": "x"}`},
		{Modify, `{"n":2}`, `{"dep": "old","n": 2,"pw": "x"}`},
		{Modify, `{"dep":"new"}`,
			`dep: is deprecated, and would be "new": must be the stored value or none: "old" (deprecated)`},
		{Set, `{"m":{"pw":1},"ro":{"x":1}}`, `ro: is read-only, and would be {"x": 1}: it can't be set (readOnly)`},
	} {
		got, faults := File(m, tt.op, old, parse(t, tt.request))
		text := faults.Error()
		if faults == nil {
			text = show(got)
		}
		if text != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.op, tt.request, text, tt.want)
		}
	}
}

func TestMask(t *testing.T) {
	m := world(t, `{}`, `{}`, `{}`).Metadata
	for _, tt := range []struct {
		path   []string
		v      any
		want   string
		hidden bool
	}{
		{nil, parse(t, `{"n":1,"pw":"x"}`), `{"n": 1,"pw": {"$masked": true}}`, true},
		{nil, parse(t, `{"n":1,"pw":null}`), `{"n": 1,"pw": null}`, false},
		{nil, parse(t, `{"n":1}`), `{"n": 1}`, false},
		{[]string{"pw"}, "x", `{"$masked": true}`, true},
		{[]string{"pw", "below"}, "x", `{"$masked": true}`, true},
		{[]string{"n"}, int64(1), `1`, false},
	} {
		got, hidden := Mask(m, tt.path, tt.v)
		if show(got) != tt.want || hidden != tt.hidden {
			t.Errorf("%v of %s: %s, %v", tt.path, show(tt.v), show(got), hidden)
		}
	}
}
