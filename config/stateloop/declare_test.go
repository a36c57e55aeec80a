package stateloop

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"edgespan/config"
)

const declaring = `{
	"sysParams": {"managedConfig": true}, "acme": {"x": 1},
	"networkInstances": {
		"10000000-0000-4000-8000-00000000000A": {"type": "local", "port": "", "ipv4": {"subnet": "10.1.0.0/24"}, ` +
	`"activate": false},
		"10000000-0000-4000-8000-00000000000b": {"type": "local", "port": "", "ipv4": {"subnet": "10.2.0.0/24"}},
		"10000000-0000-4000-8000-00000000000c": {"$absent": true}
	},
	"appNetworks": {
		"a0000000-0000-4000-8000-000000000001": {"adapters": {
			"0": {"networkInstance": "10000000-0000-4000-8000-00000000000a", "attach": {"kind": "veth", "netns": "x"}},
			"12": {"networkInstance": "10000000-0000-4000-8000-00000000000b", "attach": {"kind": "veth", "netns": "x", ` +
	`"ifName": "e1"}}}},
		"a0000000-0000-4000-8000-000000000002": {"activate": false, "adapters": {
			"0": {"networkInstance": "10000000-0000-4000-8000-00000000000c", "attach": {"kind": "veth", "netns": "y"}}}}
	}
}`

func TestDeclared(t *testing.T) {
	effective, faults := config.ParseObject([]byte(declaring))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	ws, err := DeclaredParameters(effective)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range ws {
		got = append(got, fmt.Sprint(w.ID, " ", w.Kind, " ", w.Target, " ", w.Dependencies))
	}
	want := []string{
		"adapter/a0000000-0000-4000-8000-000000000001/0 app-adapter present [ni/10000000-0000-4000-8000-00000000000a]",
		"adapter/a0000000-0000-4000-8000-000000000001/12 app-adapter present [ni/10000000-0000-4000-8000-00000000000b]",
		"adapter/a0000000-0000-4000-8000-000000000002/0 app-adapter absent [ni/10000000-0000-4000-8000-00000000000c]",
		"ni/10000000-0000-4000-8000-00000000000a network-instance present []",
		"ni/10000000-0000-4000-8000-00000000000b network-instance present []",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if ws, err := DeclaredParameters(config.Object{"sysParams": config.Object{}}); err != nil || ws != nil {
		t.Errorf("of no network: %v %v", ws, err)
	}
	if _, err := DeclaredParameters(config.Object{"networkInstances": config.Object{"n": config.Object{}}}); err == nil ||
		!strings.Contains(err.Error(), "networkInstances.n") {
		t.Errorf("a faulty config: %v", err)
	}
}

// TestWhatAConfigNoLongerDeclaresIsToBeAbsent follows a network whose config was deleted.
func TestWhatAConfigNoLongerDeclaresIsToBeAbsent(t *testing.T) {
	old, now := config.Generation{Authority: "s", Counter: 1}, config.Generation{Authority: "s", Counter: 2}
	declared := []DesiredParameter{{ID: "ni/a", Kind: KindNetwork, Target: ToBePresent}}
	a := Reported{ID: "ni/a", Kind: KindNetwork, State: Present, Generation: now}
	for _, c := range []struct {
		name  string
		b     []Reported
		want  State // "" for none
		ready bool
	}{
		{"not heard of it yet", []Reported{{ID: "ni/b", Kind: KindNetwork, State: Present, Generation: old}}, Removing,
			false},
		{"still there", []Reported{{ID: "ni/b", Kind: KindNetwork, State: Present, Generation: now}}, Removing, false},
		{"at it", []Reported{{ID: "ni/b", Kind: KindNetwork, State: Removing, Generation: now}}, Removing, false},
		{"failed", []Reported{{ID: "ni/b", Kind: KindNetwork, State: RemovingFailed, Generation: now}}, RemovingFailed,
			false},
		{"of no config", []Reported{{ID: "ni/b", Kind: KindNetwork, State: Unclaimed, Generation: now}}, Removing, false},
		{"gone, as it says", []Reported{{ID: "ni/b", Kind: KindNetwork, State: Absent, Generation: now}}, "", true},
		{"gone", nil, "", true},
		{"an adapter", []Reported{{ID: "adapter/x/0", Kind: KindAdapter, State: Present, Generation: now}}, Removing, false},
		{"nothing that a config declares", []Reported{{ID: "x", Kind: "x", State: Present, Generation: now}}, "", true},
	} {
		reports := append([]Reported{a}, c.b...)
		d := Derive(Config{Generation: now, Parameters: append(slices.Clone(declared), RemovedParameters(declared, reports)...)},
			EdgePeerConfigurationState{now, reports})
		var got State
		for _, p := range d.Parameters {
			if p.ID != "ni/a" {
				if got = p.State; p.Target != ToBeAbsent {
					t.Errorf("%s: the target is %s", c.name, p.Target)
				}
			}
		}
		if got != c.want || d.Ready != c.ready {
			t.Errorf("%s: %q, ready %v", c.name, got, d.Ready)
		}
	}
}
