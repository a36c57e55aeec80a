package netstate

import (
	"errors"
	"strings"
	"testing"
)

// bridged is a bridge with the adapter a, in a VLAN or, for 0, on a bridge that filters none, and perhaps b in VLAN 7.
func bridged(vid int, withB bool, rule string) State {
	br := Link{Name: "es1", Type: Bridge}
	port := func(name string, vid int) Port {
		p := Port{Link: name, Master: "es1"}
		if vid != 0 {
			p.VLANs = []VLANMember{{vid, true, true}}
		}
		return p
	}
	if vid != 0 {
		br.Attrs = VLANAttrs()
	}
	s := NewState(br, Port{Link: "es1"}, Chain{Family: IPv4, Table: "filter", Name: "ES1-1E", Rules: []string{rule}},
		Link{Name: "es1a1", Type: Veth}, port("es1a1", vid))
	if withB {
		s.Add(Link{Name: "es1a2", Type: Veth}, port("es1a2", 7))
	}
	return s
}

// The filter is on before a chain lets a tagged frame pass, and before a port joins that needs it. It stays until the
// ports have left that it kept apart.
func TestWhenABridgeFiltersVLANs(t *testing.T) {
	for name, c := range map[string]struct {
		have, want State
		plan       string
	}{
		"on": {bridged(0, false, "a"), bridged(10, true, "b"), "change link es1\nchange chain ipv4/filter/ES1-1E\n" +
			"add link es1a2\nchange port es1a1\nadd port es1a2"},
		"off": {bridged(10, true, "b"), bridged(0, false, "a"), "change chain ipv4/filter/ES1-1E\nchange port es1a1\n" +
			"remove port es1a2\nchange link es1\nremove link es1a2"},
		"another VLAN": {bridged(10, false, "a"), bridged(20, false, "a"), "change port es1a1"},
		"a new bridge": {State{}, bridged(10, false, "a"), "change chain ipv4/filter/ES1-1E\nadd link es1\nadd link es1a1\n" +
			"add port es1\nadd port es1a1"},
	} {
		var got []string
		for _, op := range Diff(c.have, c.want) {
			got = append(got, op.String())
		}
		if s := strings.Join(got, "\n"); s != c.plan {
			t.Errorf("%s:\n%s\nwant\n%s", name, s, c.plan)
		}
	}
}

// A port that could not leave is still kept apart.
func TestTheFilterStaysForAPortThatCannotLeave(t *testing.T) {
	done, failures := walk(Diff(bridged(10, true, "a"), bridged(0, false, "a")),
		map[string]error{"remove port es1a2": errors.New("busy")})
	if strings.Contains(done, "change link es1") || len(failures) < 2 {
		t.Errorf("done:\n%s\nfailures %+v", done, failures)
	}
}

func TestOnlyNative(t *testing.T) {
	for want, ports := range map[bool][]Port{
		true: {{}, {VLANs: []VLANMember{{NativeVLAN, true, true}}}},
		false: {{VLANs: []VLANMember{{NativeVLAN, true, false}}}, {VLANs: []VLANMember{{2, true, true}}},
			{VLANs: []VLANMember{{NativeVLAN, true, true}, {2, false, false}}}},
	} {
		for _, p := range ports {
			if p.OnlyNative() != want {
				t.Errorf("%+v: %v", p, !want)
			}
		}
	}
	p := Port{Link: "es1a1", Master: "es1", VLANs: []VLANMember{{10, true, true}, {20, false, false}, {30, false, true}}}
	if got := p.Text(); got != "up master es1 vlan 10 pvid untagged vlan 20 vlan 30 untagged" {
		t.Error(got)
	}
}
