package nodeconf

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"edgespan/config"
)

func TestEnforceRemovesObserve(t *testing.T) {
	const (
		one     = "a0000000-0000-4000-8000-000000000001"
		other   = "A0000000-0000-4000-8000-000000000002"
		at      = "appNetworks." + one + ".adapters."
		content = `{"ports":{"wan":{"mtu":1400}},"appNetworks":{"` + one + `":{"adapters":{
			"0":{"observe":true,"mac":"x"},"1":{"observe":false},"2":{},"10":{"observe":true},"3":{"$absent":true}}},
			"` + other + `":{"adapters":{"0":{"observe":true}}}}}`
	)
	for _, x := range []struct {
		app, index string
		paths      []string
	}{
		{one, "", []string{at + "0.observe", at + "10.observe"}},
		{one, "0", []string{at + "0.observe"}},
		{one, "10", []string{at + "10.observe"}},
		{one, "1", nil},
		{one, "7", nil},
		{other, "", []string{"appNetworks." + other + ".adapters.0.observe"}},
		{"a0000000-0000-4000-8000-000000000003", "", nil},
	} {
		doc, faults := config.ReadObject([]byte(content))
		if faults != nil {
			t.Fatal(faults)
		}
		before := config.MD5(doc)
		got, paths := Enforce(doc, uuid.MustParse(x.app), x.index)
		if !slices.Equal(paths, x.paths) || config.MD5(doc) != before || (config.MD5(got) == before) != (x.paths == nil) {
			t.Errorf("%s %q: %v, want %v", x.app, x.index, paths, x.paths)
		}
		for _, text := range x.paths {
			path, err := config.ParsePath(text)
			if _, has := config.Lookup(got, path); has || err != nil {
				t.Errorf("%s %q: %s is still there: %v", x.app, x.index, text, err)
			}
			was, _ := config.Lookup(doc, path)
			got = config.Set(got, path, was)
		}
		if config.MD5(got) != before {
			t.Errorf("%s %q: changes more than observe", x.app, x.index)
		}
	}
	if _, paths := Enforce(nil, uuid.MustParse(one), ""); paths != nil {
		t.Error(paths)
	}
}
