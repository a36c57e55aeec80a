package override

import (
	"testing"
)

// The seed, "Operations", "Deprecation" and "Read-only": each sub-test is a row of
// docs/seeds.md.
func TestSeed_WritesToLayers(t *testing.T) {
	const base = `{"n":1,"s":"x","o":{"must":1},"m":{}}`
	layers := func(t *testing.T, write, network, node string) { // of two layers that have n and q each
		t.Helper()
		r, faults := Apply(world(t, base, `{"n":2,"q":2}`, `{"n":3,"q":3}`), one(t, write))
		own := r.Nodes["n1"]
		if own == nil {
			own = parse(t, `{"n":3,"q":3}`)
		}
		if faults != nil || show(r.Network) != show(parse(t, network)) || show(own) != show(parse(t, node)) {
			t.Errorf("%s: %s and %s, %v", write, show(r.Network), show(own), faults)
		}
	}
	refused := func(t *testing.T, own, write, want string) {
		t.Helper()
		_, faults := Apply(world(t, base, `{}`, own), one(t, write))
		compareLines(t, faults.Error(), want)
	}
	t.Run("TCM-W1", func(t *testing.T) { // SET_CTRL_CONFIG_NETWORK_OVERRIDES_REQ, SET_CTRL_CONFIG_NODE_OVERRIDES_REQ
		layers(t, `network set {"s":"y"}`, `{"s":"y"}`, `{"n":3,"q":3}`)
		layers(t, `node set {"n1":{"s":"y"}}`, `{"n":2,"q":2}`, `{"s":"y"}`)
	})
	t.Run("TCM-W8", func(t *testing.T) { // MODIFY_CTRL_CONFIG_NETWORK_OVERRIDES_REQ, MODIFY_CTRL_CONFIG_NODE_OVERRIDES_REQ
		layers(t, `network modify {"s":"y","n":4}`, `{"n":4,"q":2,"s":"y"}`, `{"n":3,"q":3}`)
		layers(t, `node modify {"n1":{"s":"y","n":4}}`, `{"n":2,"q":2}`, `{"n":4,"q":3,"s":"y"}`)
	})
	t.Run("TCM-W2", func(t *testing.T) { // what was overridden can be given back
		layers(t, `network set {}`, `{}`, `{"n":3,"q":3}`)
		layers(t, `node set {"n1":{}}`, `{"n":2,"q":2}`, `{}`)
	})
	t.Run("TCM-W3", func(t *testing.T) { // "All SET operations on the controller are validated using the config metadata"
		for _, op := range []string{"set", "modify"} {
			refused(t, `{}`, `network `+op+` {"n":11}`, "n1, n2: n: invalid value 11: must be an integer from 1 to 10")
			refused(t, `{}`, `node `+op+` {"n1":{"n":11}}`, "n1: n: invalid value 11: must be an integer from 1 to 10")
			refused(t, `{}`, `node `+op+` {"n1":{"n":10}}`, "")
		}
	})
	t.Run("TCM-W4", func(t *testing.T) { // "the actions that they would take for a given configuration change"
		r, faults := Apply(world(t, base, `{}`, `{}`), one(t, `node modify {"n1":{"s":"y","o":{"may":"z"}}}`))
		if faults != nil || len(r.Effects) != 1 || len(r.Effects[0].Actions) != 2 ||
			r.Effects[0].Actions[0].Name != "RESTART_ROUTING" || r.Effects[0].Actions[1].Name != "REBOOT" {
			t.Errorf("%v: %v", faults, r.Effects)
		}
	})
	// deprecated: "will still be initially read from disk, but only allow GET operations"
	t.Run("TCM-W5", func(t *testing.T) {
		refused(t, `{"dep":"x"}`, `node modify {"n1":{"n":2}}`, "")
		refused(t, `{"dep":"x"}`, `node modify {"n1":{"dep":"y"}}`, "n1: dep: is deprecated")
		refused(t, `{}`, `node modify {"n1":{"o":{"old":1}}}`, "n1: o.old: is deprecated")
	})
	t.Run("TCM-W6", func(t *testing.T) { // read-only: the same
		refused(t, `{"ro":{"a":1}}`, `node modify {"n1":{"n":2}}`, "")
		refused(t, `{"ro":{"a":1}}`, `node modify {"n1":{"ro":{"a":2}}}`, "n1: ro: is read-only")
		refused(t, `{}`, `node modify {"n1":{"o":{"fixed":{"x":1}}}}`, "n1: o.fixed: is read-only")
	})
	t.Run("TCM-W7", func(t *testing.T) { // overrides are of nodes that there are
		w := world(t, base, `{}`, `{}`)
		w.InTopology = map[string]bool{"n1": true}
		_, faults := Apply(w, one(t, `node set {"n9":{"n":2}}`))
		compareLines(t, faults.Error(), "n9: not in the topology")
	})
}
