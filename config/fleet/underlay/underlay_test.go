package underlay

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/stateloop/peer"
)

func port(label, address string, mtu int) Port {
	p := Port{Label: label, MTU: mtu}
	if address != "" {
		p.Addresses = []netip.Addr{netip.MustParseAddr(address)}
	}
	return p
}

// What counts of the ports of a node: each for itself, once it stands, by what is stored.
func TestWhichPortsCount(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	var p Debouncers
	var stored Ports
	for i, step := range []struct {
		at     time.Duration
		said   []Port
		stored []Port // by another; nil: what counted
		want   []Port
		wait   time.Duration
	}{
		{at: 0, said: []Port{port("a", "192.0.2.1", 1500), port("b", "192.0.2.2", 1500)},
			want: []Port{port("a", "192.0.2.1", 1500), port("b", "192.0.2.2", 1500)}},
		{at: 10, said: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.2", 1500)},
			want: []Port{port("a", "192.0.2.1", 1500), port("b", "192.0.2.2", 1500)}, wait: 3},
		{at: 12, said: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.3", 1500)},
			want: []Port{port("a", "192.0.2.1", 1500), port("b", "192.0.2.2", 1500)}, wait: 1},
		{at: 13, said: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.3", 1500)},
			want: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.2", 1500)}, wait: 2},
		// a flaps on, and b is not held up by it
		{at: 14, said: []Port{port("a", "192.0.2.1", 1500), port("b", "192.0.2.3", 1500)},
			want: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.2", 1500)}, wait: 1},
		{at: 15, said: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.3", 1500)},
			want: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.3", 1500)}},
		// another replica stored something else meanwhile: that counts, until what is said stands
		{at: 100, said: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.3", 1500)},
			stored: []Port{port("a", "192.0.2.7", 1500), port("b", "192.0.2.3", 1500)},
			want:   []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.3", 1500)}},
		// a port that comes is new at once, one that goes as others change
		{at: 110, said: []Port{port("a", "192.0.2.9", 1500), port("c", "192.0.2.4", 1500)},
			want: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.3", 1500), port("c", "192.0.2.4", 1500)},
			wait: 3},
		{at: 113, said: []Port{port("a", "192.0.2.9", 1500), port("c", "192.0.2.4", 1500)},
			want: []Port{port("a", "192.0.2.9", 1500), port("c", "192.0.2.4", 1500)}},
	} {
		if step.stored != nil {
			stored = Ports{Ports: step.stored}
		}
		got, wait := p.Effective(noon.Add(step.at*time.Second), Ports{Ports: step.said}, stored)
		if string(encode(got)) != string(encode(Ports{Ports: step.want})) ||
			wait != step.wait*time.Second {
			t.Errorf("%d: %s in %v", i, encode(got), wait)
		}
		stored = got
	}
	// One that brings new ports all the time has no more of them than fit.
	changes := 0
	for i := range 10 * maxPorts {
		got, _ := p.Effective(noon.Add(time.Duration(200+i)*time.Second/20),
			Ports{Ports: []Port{port(fmt.Sprint("x", i), "192.0.2.1", 1500)}}, stored)
		if string(encode(got)) != string(encode(stored)) {
			changes++
		}
		stored = got
	}
	if len(p) > maxPorts || changes > 3*maxPorts {
		t.Errorf("%d ports are known, %d changes", len(p), changes)
	}
}

// What is kept of ports: none without end, no address that others could not reach, and the last one of a port that has
// none now.
func TestThePortsThatAreKept(t *testing.T) {
	t.Parallel()
	said := func(label string, mtu int, addresses ...string) nodeproto.Port {
		return nodeproto.Port{Label: label, MTU: mtu, Addresses: addresses}
	}
	many := make([]nodeproto.Port, 2*maxPorts)
	for i := range many {
		many[i] = said(fmt.Sprintf("p%03d", i), 1500)
	}
	before := Ports{Ports: []Port{port("a", "192.0.2.1", 1400)}}
	for name, c := range map[string]struct {
		ports []nodeproto.Port
		want  []Port
	}{
		"another address":            {[]nodeproto.Port{said("a", 1500, "192.0.2.2")}, []Port{port("a", "192.0.2.2", 1500)}},
		"no address now, nor an MTU": {[]nodeproto.Port{said("a", 0)}, []Port{port("a", "192.0.2.1", 1400)}},
		"only those of no use": {[]nodeproto.Port{said("a", 1500, "127.0.0.1", "fe80::1", "224.0.0.1", "x")},
			[]Port{port("a", "192.0.2.1", 1500)}},
		"one label twice":          {[]nodeproto.Port{said("b", 1), said("b", 2)}, []Port{port("b", "", 1)}},
		"a label that is too long": {[]nodeproto.Port{said(strings.Repeat("x", maxLabel+1), 1)}, []Port{}},
		"in the order of their names": {[]nodeproto.Port{said("c", 1), said("b", 2)},
			[]Port{port("b", "", 2), port("c", "", 1)}},
	} {
		if got := FromReport(c.ports, before, ofNone); string(encode(got)) != string(encode(Ports{Ports: c.want})) {
			t.Errorf("%s: %s, want %s", name, encode(got), encode(Ports{Ports: c.want}))
		}
	}
	if got := FromReport(many, before, ofNone); len(got.Ports) != maxPorts {
		t.Errorf("%d ports are kept", len(got.Ports))
	}
}

// A key counts only under its label, only if it is one, and is kept while the node does not say it.
func TestTheKeyThatIsKept(t *testing.T) {
	t.Parallel()
	key, next := "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI="
	before := FromReport([]nodeproto.Port{{Label: peer.KeyLabel, PublicKey: key}, {Label: "wan", PublicKey: key}}, Ports{}, ofNone)
	if got := before.ByLabel(); got[peer.KeyLabel].PublicKey != key || got["wan"].PublicKey != "" {
		t.Errorf("%s", encode(before))
	}
	for said, want := range map[string]string{"": key, "rubbish": key, next: next} {
		got := FromReport([]nodeproto.Port{{Label: peer.KeyLabel, PublicKey: said}}, before, ofNone)
		if got.ByLabel()[peer.KeyLabel].PublicKey != want {
			t.Errorf("%q: %s", said, encode(got))
		}
	}
	// The next key is kept in the same way, and ends with its report.
	both := FromReport([]nodeproto.Port{{Label: peer.KeyLabel, PublicKey: key},
		{Label: peer.NextKeyLabel, PublicKey: next}}, before, ofNone)
	if got := both.ByLabel(); got[peer.KeyLabel].PublicKey != key || got[peer.NextKeyLabel].PublicKey != next {
		t.Errorf("%s", encode(both))
	}
	after := FromReport([]nodeproto.Port{{Label: peer.KeyLabel, PublicKey: next}}, both, ofNone)
	if got := after.ByLabel(); got[peer.KeyLabel].PublicKey != next || got[peer.NextKeyLabel].PublicKey != "" {
		t.Errorf("%s", encode(after))
	}
	// One that is another's is as good as none.
	another := func(key string) bool { return key == next }
	taken := FromReport([]nodeproto.Port{{Label: peer.KeyLabel, PublicKey: key},
		{Label: peer.NextKeyLabel, PublicKey: next}}, before, another)
	if got := taken.ByLabel(); got[peer.KeyLabel].PublicKey != key || got[peer.NextKeyLabel].PublicKey != "" {
		t.Errorf("%s", encode(taken))
	}
	if got := FromReport([]nodeproto.Port{{Label: peer.KeyLabel, PublicKey: next}}, before, another); got.
		ByLabel()[peer.KeyLabel].PublicKey != key {
		t.Errorf("%s", encode(got))
	}
}

func ofNone(string) bool { return false }

// A key that was announced and is used now is at no time neither of both, though other changes wait.
func TestAReplacedKeyTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	first, second := "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI="
	now := time.Unix(1e9, 0)
	stored := Ports{Ports: []Port{{Label: peer.KeyLabel, PublicKey: first}, {Label: peer.NextKeyLabel, PublicKey: second}}}
	var d Debouncers
	if got, _ := d.Effective(now, stored, stored); string(encode(got)) != string(encode(stored)) {
		t.Errorf("at first %s", encode(got))
	}
	said := Ports{Ports: []Port{{Label: peer.KeyLabel, PublicKey: second}}}
	if got, wait := d.Effective(now, said, stored); string(encode(got)) != string(encode(said)) || wait != 0 {
		t.Errorf("replaced: %s, wait %v", encode(got), wait)
	}
	other := Ports{Ports: []Port{{Label: peer.KeyLabel, PublicKey: first}}}
	if got, wait := d.Effective(now.Add(time.Second), other, said); string(encode(got)) != string(encode(said)) || wait == 0 {
		t.Errorf("another change: %s, wait %v", encode(got), wait)
	}
}
