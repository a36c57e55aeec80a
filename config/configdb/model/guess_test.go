package model

import (
	"fmt"
	"testing"

	"edgespan/config/configdb"
)

// What is only tried by one who may not see secrets is answered alike for the right guess and a wrong one, by
// whichever way; a mask in the place of the secret is no guess, and one who may see secrets is told.
func TestAWriteThatIsOnlyTriedConfirmsNoSecret(t *testing.T) {
	d := fuel(t, "nodes")
	d.must(DeclareSecrets{ID: 1, Keys: []string{"password", "users.*.pin", "deep"}})
	const stored = `{"a":1,"deep":{"k":"v"},"password":"right","users":[{"name":"ann","pin":"right"}]}`
	d.put("9/astute", stored)
	d.put("9/nodes=1/astute", `{"b":1}`)
	root := target("9/astute")
	try := func(w Write, blind bool) string {
		t.Helper()
		p, err := d.state.Plan([]QueuedWrite{{Write: w, Author: "olga", Time: start, Blind: blind}}, d.store)
		if err != nil || len(p.Results) != 1 || p.Results[0].Fault != nil {
			t.Fatal(err, p)
		}
		return fmt.Sprintf("%+v", p.Results[0].Written)
	}
	put := func(at, text string) Write { return Put{Target: target(at), Kind: Values, Value: doc(t, text)} }
	keys := func(text string) Write {
		return EditKeys{Target: root, Kind: Values, Edit: edit(t, configdb.KeysSet, text)}
	}
	const with = `{"a":1,"deep":{"$masked":true},"password":%q,"users":[{"name":"ann","pin":{"$masked":true}}]}`
	for name, guess := range map[string]func(string) Write{
		"the document":          func(s string) Write { return put("9/astute", fmt.Sprintf(with, s)) },
		"at another place":      func(s string) Write { return put("9/nodes=1/astute", fmt.Sprintf(`{"password":%q}`, s)) },
		"of a resource without": func(s string) Write { return put("9/globals", fmt.Sprintf(`{"password":%q}`, s)) },
		"a key":                 func(s string) Write { return keys(fmt.Sprintf(`[["password",%q]]`, s)) },
		"a key in a list":       func(s string) Write { return keys(fmt.Sprintf(`[["users",0,"pin",%q]]`, s)) },
		"a key below a secret": func(s string) Write {
			return keys(fmt.Sprintf(`[["deep",{"k":%q}]]`, map[string]string{"right": "v", "wrong": "w"}[s]))
		},
		"an object with a secret": func(s string) Write {
			return keys(fmt.Sprintf(`[["users",[{"name":"ann","pin":%q}]]]`,
				s))
		},
		"one, and what is there": func(s string) Write {
			return Bulk{[]Write{put("9/astute", fmt.Sprintf(with, s)), put("9/astute", fmt.Sprintf(with, "right"))}}
		},
		"one, and what is not": func(s string) Write {
			return Bulk{[]Write{put("9/nodes=1/astute", `{"b":2}`), put("9/astute", fmt.Sprintf(with, s))}}
		},
		"one, and the way back": func(s string) Write {
			return Bulk{[]Write{put("9/astute", fmt.Sprintf(with, s)), Rollback{Target: root, Kind: Values, Version: 1}}}
		},
		"two keys, the other true": func(s string) Write { return keys(fmt.Sprintf(`[["a",1],["password",%q]]`, s)) },
	} {
		right, wrong := try(guess("right"), true), try(guess("wrong"), true)
		if right != wrong {
			t.Errorf("%s: the right guess is told from a wrong one:\n%s\n%s", name, right, wrong)
		}
	}
	for name, c := range map[string]struct {
		write         Write
		blind, change bool
	}{
		"masks": {put("9/astute",
			`{"a":1,"deep":{"$masked":true},"password":{"$masked":true},"users":[{"name":"ann","pin":{"$masked":true}}]}`), true,
			false},
		"masks and a change":     {put("9/astute", `{"a":2,"password":{"$masked":true}}`), true, true},
		"a key beside":           {keys(`[["a",1]]`), true, false},
		"one who may see":        {put("9/astute", stored), false, false},
		"one who may see, wrong": {keys(`[["password","wrong"]]`), false, true},
		"no secret":              {put("9/nodes=1/astute", `{"b":1}`), true, false},
	} {
		p, err := d.state.Plan([]QueuedWrite{{Write: c.write, Author: "olga", Time: start, Blind: c.blind}}, d.store)
		if err != nil || p.Results[0].Fault != nil || p.Results[0].Written.Changed != c.change {
			t.Errorf("%s: %+v, %v", name, p.Results, err)
		}
	}
}
