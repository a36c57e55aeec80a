package firewall

import (
	"slices"
	"testing"

	"edgespan/netinst/netstate"
	"edgespan/platform/nft"

	"github.com/google/go-cmp/cmp"
)

var frames = nft.Table{Family: netstate.BridgeFamily, Name: "edgespan"}

// framesOf is the table of frames with a chain of two rules and elements.
func framesOf(elements ...nft.Element) native {
	content := nft.Content{Chains: map[string]string{"frames": " hook 00 policy 01, 2 rules, ab",
		"ES1-1F": ", 2 rules, cd", "ES12-1F": ", 1 rules, ef"}, Sets: map[string]string{"ports": "12"}, Elements: elements}
	n := native{map[nft.Table]nft.Content{frames: content}, map[nft.Table]map[int][]string{},
		map[nft.Table]map[string][]nft.Element{}}
	n.index(frames, content)
	return n
}

// A chain of frames is as written only with all its rules and exactly its elements.
func TestAChainOfFramesIsFound(t *testing.T) {
	hook := func(key string) netstate.Hook { return netstate.Hook{Parent: "ports", Match: key} }
	element := func(key, value string) nft.Element { return nft.Element{Map: "ports", Key: key, Value: value} }
	c := netstate.Chain{Family: frames.Family, Table: frames.Name, Name: "ES1-1F", Rules: []string{"accept", "drop"},
		Hooks: []netstate.Hook{hook(`"es1a2"`), hook(`"es1a1"`)}}
	both := []nft.Element{element(`"es1a1"`, "jump ES1-1F"), element(`"es1a2"`, "jump ES1-1F")}
	longer := c
	longer.Rules = append(slices.Clone(c.Rules), "drop")
	one := read(c, "x")
	one.Kernel = ", 2 rules, cd\nports> \"es1a1\""
	for name, x := range map[string]struct {
		left     entry
		elements []nft.Element
		same     bool
		hooks    []netstate.Hook
	}{
		"just written":              {written(c), both, true, c.Hooks},
		"with one element":          {written(c), both[:1], false, []netstate.Hook{hook(`"es1a1"`)}},
		"with a rule less":          {written(longer), both, false, []netstate.Hook{hook(`"es1a1"`), hook(`"es1a2"`)}},
		"as it was read before":     {one, both[:1], true, c.Hooks},
		"as it was not read before": {one, both, false, []netstate.Hook{hook(`"es1a1"`), hook(`"es1a2"`)}},
		"with an element that goes": {written(c), []nft.Element{element(`"es1a1"`, "goto ES1-1F")}, false,
			[]netstate.Hook{hook(`"es1a1" : goto ES1-1F`)}},
		"beside an element of another's": {written(c), append(slices.Clone(both), element(`"es12a1"`, "jump ES12-1F")), true,
			c.Hooks},
	} {
		e, there := framesOf(x.elements...).found(x.left)
		if got := e.chain(); !there || (got.Text() == x.left.chain().Text()) != x.same || !slices.Equal(got.Hooks, x.hooks) {
			t.Errorf("%s: %v %+v", name, there, got)
		}
		if d := cmp.Diff(own(x.elements, "ES1-1F"), e.elements()); !x.same && d != "" {
			t.Errorf("%s: elements (-kernel +entry):\n%s", name, d)
		}
	}
	c.Name = "ES1-9F"
	if _, there := framesOf().found(written(c)); there {
		t.Error("a chain that is not there is found")
	}
}

func own(elements []nft.Element, chain string) []nft.Element {
	return slices.DeleteFunc(slices.Clone(elements), func(e nft.Element) bool { return e.Chain() != chain })
}

// Host's part of the table has no network's chain and no element that leads to one.
func TestHostsPartOfATable(t *testing.T) {
	of := func(elements ...nft.Element) string { return framesOf(elements...).text(frames) }
	alone := of()
	network := nft.Element{Map: "ports", Key: `"es1a1"`, Value: "jump ES1-1F"}
	if with := of(network); with != alone {
		t.Errorf("with a network's element: %s, want %s", with, alone)
	}
	for _, value := range []string{"drop", "jump frames", "jump ESX-1F"} {
		if of(nft.Element{Map: "ports", Key: `"es1a1"`, Value: value}) == alone {
			t.Errorf("an element with %q is not told", value)
		}
	}
	n := framesOf(network)
	n.tables[nft.Table{Family: netstate.BridgeFamily, Name: "es7"}] = nft.Content{}
	owners := n.owners()
	slices.Sort(owners)
	if d := cmp.Diff([]int{0, 1, 7, 12}, owners); d != "" {
		t.Errorf("owners (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[int]bool{7: true}, n.oldFrames()); d != "" {
		t.Errorf("networks with a table of their own (-want +got):\n%s", d)
	}
}

// A table whose map lacks an element that is written with it is not as written: neither when it was just written, nor
// when it was read so before.
func TestATableWithoutAnElementOfItsMapIsNotAsWritten(t *testing.T) {
	c := netstate.Chain{Family: frames.Family, Name: frames.Name, Rules: []string{"map seals {", "type ifname : verdict;",
		`elements = { "evpn1" : goto unseal-1, "evpn7" : goto unseal-7 }`, "}", "set x {", "elements = { 10.0.0.1 }", "}"}}
	one := nft.Element{Map: "seals", Key: `"evpn1"`, Value: "goto unseal-1"}
	seven := nft.Element{Map: "seals", Key: `"evpn7"`, Value: "goto unseal-7"}
	for name, x := range map[string]struct {
		elements []nft.Element
		same     bool
	}{
		"all": {[]nft.Element{seven, one}, true}, "one": {[]nft.Element{one}, false}, "none": {nil, false},
		"another value": {[]nft.Element{one, {Map: "seals", Key: `"evpn7"`, Value: "goto unseal-1"}}, false},
		"another map":   {[]nft.Element{one, {Map: "other", Key: `"evpn7"`, Value: "goto unseal-7"}}, false},
	} {
		n := framesOf(x.elements...)
		for _, left := range []entry{written(c), read(c, n.text(frames))} {
			if e, there := n.found(left); !there || (e.chain().Text() == c.Text()) != x.same {
				t.Errorf("%s, unread %v: %v %+v", name, left.Unread, there, e)
			}
		}
	}
}
