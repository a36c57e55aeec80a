package netstate

import (
	"errors"
	"testing"
	"time"
)

// portState is a port with an address and a default route.
func portState(address, gateway string) State {
	a := Address{Link: "eth0", Prefix: address, Foreign: true}
	return NewState(a, Port{Link: "eth0", Foreign: true}, Route{Table: MainTable, Dst: "0.0.0.0/0", Type: Unicast,
		Dev: "eth0", Via: gateway, Metric: 1000, After: a.ID()})
}

// What other programs have set on a foreign link counts only if it is desired: then it is as desired, else it stays.
func TestClaim(t *testing.T) {
	own := Address{Link: "eth0", Prefix: "192.0.2.2/24", Foreign: true}
	other := Address{Link: "eth0", Prefix: "198.51.100.2/24", Foreign: true, Unmarked: true}
	adopted := Address{Link: "eth1", Prefix: "10.0.0.2/24", Foreign: true, Unmarked: true}
	lent := Port{Link: "eth2", Master: "es1", Foreign: true}
	have := NewState(own, other, adopted, Port{Link: "eth0", Foreign: true}, Port{Link: "eth1", Foreign: true}, lent)
	desired := adopted
	desired.Unmarked = false
	want := NewState(desired, Port{Link: "eth1", Foreign: true})
	plan := spell(Diff(Claim(have, want), want))
	if plan != "remove port eth2\nremove address eth0 192.0.2.2/24" {
		t.Errorf("the plan is\n%s", plan)
	}
	if left := Claim(have, State{}); len(left) != 2 || left[own.ID()] == nil || left[lent.ID()] == nil {
		t.Errorf("without a desired state these count:\n%s", left)
	}
}

// vlanState is a port that is VLAN id of parent, with an address and a default route.
func vlanState(parent string, id int, address string) State {
	l := Link{Name: "wan", Type: VLAN, Tag: &VLANTag{parent, id}}
	up := Port{Link: parent, Foreign: true}
	a := Address{Link: "wan", Prefix: address, Foreign: true, After: l.ID()}
	return NewState(l, up, a, Port{Link: "wan", Foreign: true, After: []ID{l.ID(), up.ID()}}, Route{Table: MainTable,
		Dst: "0.0.0.0/0", Type: Unicast, Dev: "wan", Via: "192.0.2.1", Metric: 1000, After: a.ID()})
}

// On edgespan's own link, an address with another label is another one.
func TestClaimOfALabel(t *testing.T) {
	have := NewState(Address{Link: "es1", Prefix: "10.1.0.1/24", Label: "es1:x"})
	want := NewState(Address{Link: "es1", Prefix: "10.1.0.1/24", Label: "es1:g"})
	if plan := Diff(Claim(have, want), want); len(plan) != 1 || plan[0].Verb != Change {
		t.Errorf("%v", plan)
	}
}

// A VLAN that another program has created counts only if it is the desired one: another one is left alone.
func TestClaimOfAVLAN(t *testing.T) {
	want := vlanState("zeth0", 5, "192.0.2.2/24")
	for name, c := range map[string]struct {
		found Link
		want  State
		plan  string
	}{
		"edgespan's, undesired":       {Link{Name: "old", Type: VLAN, Tag: &VLANTag{"zeth0", 9}}, State{}, "remove link old"},
		"another program's":           {Link{Name: "old", Tag: &VLANTag{"zeth0", 9}, Unmarked: true}, State{}, ""},
		"another program's, the same": {Link{Name: "wan", Type: VLAN, Tag: &VLANTag{"zeth0", 5}, Unmarked: true}, want, ""},
		"edgespan's of another VLAN": {Link{Name: "wan", Type: VLAN, Tag: &VLANTag{"zeth0", 9}}, want,
			"remove link wan\nadd link wan\nadd address wan 192.0.2.2/24\nadd port wan\n" +
				"add route 0.0.0.0/0 table 254 metric 1000"},
		"another program's of another VLAN": {Link{Name: "wan", Type: VLAN, Tag: &VLANTag{"zeth0", 9}, Unmarked: true}, want,
			"add link wan"},
	} {
		have := NewState(c.found)
		for id, o := range c.want {
			if id.Kind != KindLink {
				have.Add(o) // the old link is up and has all that the new one must have
			}
		}
		if plan := spell(Diff(Claim(have, c.want), c.want)); plan != c.plan {
			t.Errorf("%s:\n%s\nwant\n%s", name, plan, c.plan)
		}
	}
}

// Without its link, nothing of a VLAN is tried; its parent is set up nevertheless.
func TestTheFailureOfAVLANHoldsUpWhatIsOnIt(t *testing.T) {
	done, failures := walk(Diff(State{}, vlanState("zeth0", 5, "192.0.2.2/24")),
		map[string]error{"add link wan": errors.New("no module")})
	if done != "add link wan\nadd port zeth0" || len(failures) != 4 || failures[0].Err != "no module" || !failures[1].Waiting {
		t.Errorf("done:\n%s\nfailures %v", done, failures)
	}
}

// The end of an address is set again when it is another one, by seconds more than the kernel's clock differs.
func TestTheEndOfAnAddress(t *testing.T) {
	end := time.Date(2026, 11, 23, 18, 0, 0, 0, time.UTC)
	until := func(end time.Time) Address {
		return Address{Link: "eth0", Prefix: "192.0.2.2/24", Foreign: true, Ends: end}
	}
	unmarked := until(time.Time{})
	unmarked.Unmarked = true
	for name, c := range map[string]struct {
		have, want Address
		plan       string
	}{
		"the same":                     {until(end), until(end), ""},
		"a little later":               {until(end.Add(endsSlack)), until(end), ""},
		"renewed":                      {until(end), until(end.Add(time.Minute)), "change address eth0 192.0.2.2/24"},
		"of a release without an end":  {until(time.Time{}), until(end), "change address eth0 192.0.2.2/24"},
		"static by now":                {until(end), until(time.Time{}), "change address eth0 192.0.2.2/24"},
		"that another program has set": {unmarked, until(end), ""},
	} {
		have, want := NewState(c.have), NewState(c.want)
		if plan := spell(Diff(Claim(have, want), want)); plan != c.plan {
			t.Errorf("%s: %q, want %q", name, plan, c.plan)
		}
	}
}

func TestThePlanOfAPort(t *testing.T) {
	for name, c := range map[string]struct {
		have, want State
		plan       string
	}{
		"is set up": {State{}, portState("192.0.2.2/24", "192.0.2.1"), "add address eth0 192.0.2.2/24\nadd port eth0\n" +
			"add route 0.0.0.0/0 table 254 metric 1000"},
		"is removed": {Claim(portState("192.0.2.2/24", "192.0.2.1"), State{}), State{},
			"remove route 0.0.0.0/0 table 254 metric 1000\nremove address eth0 192.0.2.2/24"},
		"moves to another subnet: the old address goes last": {portState("192.0.2.2/24", "192.0.2.1"),
			portState("10.0.0.2/24", "10.0.0.1"), "add address eth0 10.0.0.2/24\n" +
				"change route 0.0.0.0/0 table 254 metric 1000\nremove address eth0 192.0.2.2/24"},
		"moves within its subnet: the old address goes last too": {portState("192.0.2.2/24", "192.0.2.1"),
			portState("192.0.2.3/24", "192.0.2.1"), "add address eth0 192.0.2.3/24\nremove address eth0 192.0.2.2/24"},
		"is a VLAN: its link and its parent come first": {State{}, vlanState("zeth0", 5, "192.0.2.2/24"), "add link wan\n" +
			"add address wan 192.0.2.2/24\nadd port zeth0\nadd port wan\nadd route 0.0.0.0/0 table 254 metric 1000"},
		"was a VLAN: its link goes last": {Claim(vlanState("zeth0", 5, "192.0.2.2/24"), State{}), State{},
			"remove route 0.0.0.0/0 table 254 metric 1000\nremove address wan 192.0.2.2/24\nremove link wan"},
	} {
		if got := spell(Diff(c.have, c.want)); got != c.plan {
			t.Errorf("a port that %s:\n%s\nwant\n%s", name, got, c.plan)
		}
	}
}

// A route from an address that is added again to change its label is added again too; one from an address of a port,
// which changes in place, is not.
func TestARouteFromAnAddressThatChanges(t *testing.T) {
	of := func(a Address) State {
		return NewState(a, Route{Table: 20001, Dst: "10.1.0.0/24", Type: Unicast, Dev: a.Link, Src: "10.1.0.1", After: a.ID()})
	}
	own := Address{Link: "es1", Prefix: "10.1.0.1/24"}
	labelled := own
	labelled.Label = "es1:g"
	ports := Address{Link: "eth0", Prefix: "10.1.0.1/24", Foreign: true}
	longer := ports
	longer.Ends = time.Unix(1e9, 0)
	for _, c := range []struct {
		have, want State
		plan       string
	}{
		{of(own), of(labelled), "change address es1 10.1.0.1/24\nadd route 10.1.0.0/24 table 20001 metric 0"},
		{of(labelled), of(labelled), ""},
		{of(ports), of(longer), "change address eth0 10.1.0.1/24"},
	} {
		if got := spell(Diff(c.have, c.want)); got != c.plan {
			t.Errorf("plan %q, want %q", got, c.plan)
		}
	}
}
