package registry

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

var (
	netA = uuid.MustParse("0a000000-0000-4000-8000-000000000001")
	netB = uuid.MustParse("0a000000-0000-4000-8000-000000000002")
)

func lan(gen uint64) netinst.NetworkInstanceConfig {
	return netinst.NetworkInstanceConfig{
		UUID: netA, DisplayName: "lan", Type: netinst.Local, Port: "wan", SpoofGuard: true, Generation: gen,
		IPv4: netinst.IPv4Config{
			Subnet: netip.MustParsePrefix("10.1.0.0/24"), Gateway: netip.MustParseAddr("10.1.0.1"),
			DHCPFirst: netip.MustParseAddr("10.1.0.128"), DHCPLast: netip.MustParseAddr("10.1.0.254"),
		},
	}
}

func registryText(effs []Effect) string {
	name := func(id string) string { return "ni" + id[len(id)-1:] }
	var out []string
	for _, e := range effs {
		switch e := e.(type) {
		case RecordNumber:
			out = append(out, fmt.Sprintf("record %s=%d", name(e.NI.String()), e.Number))
		case ForgetNumber:
			out = append(out, "forget "+name(e.NI.String()))
		case ApplyHost:
			text := fmt.Sprintf("ground#%d of %d", e.Seq, len(guardSubnets(e.Want)))
			if c, ok := e.Want[netstate.ID{Kind: netstate.KindChain, Name: "inet/" + netinst.GuardTable}]; ok &&
				strings.Contains(c.Text(), "\"es5\" accept") {
				text += " with unmarked ones"
			}
			if c, ok := e.Want[netstate.ID{Kind: netstate.KindChain, Name: "bridge/" + netinst.GuardTable}]; ok &&
				strings.Contains(c.Text(), "\"es5a*\" accept") {
				text += " with old frames"
			}
			out = append(out, text)
		case FindOwners:
			out = append(out, fmt.Sprintf("find owners in %v", e.After))
		case TouchNetworks:
			text := fmt.Sprintf("touch %v", e.Networks)
			if e.Moved {
				text = fmt.Sprintf("touch moved %v", e.Networks)
			}
			if e.Full {
				text += " in full"
			}
			out = append(out, text)
		case SpawnManager:
			out = append(out, fmt.Sprintf("spawn %s=%d", name(e.Owner.Name), e.Owner.Number))
		case HostRetry:
			if e.After == netinst.CheckEvery {
				continue
			}
			out = append(out, fmt.Sprintf("retry in %v", e.After))
		case HostProblem:
			if e.Error != "" {
				out = append(out, "ground: "+e.Error)
			}
		}
	}
	return strings.Join(out, ", ")
}

// guardSubnets are the prefixes of networks that the guard knows.
func guardSubnets(host netstate.State) []string {
	c, _ := host[netstate.ID{Kind: netstate.KindChain, Name: "inet/" + netinst.GuardTable}].(netstate.Chain)
	var out []string
	for i, r := range c.Rules {
		name, isSet := strings.CutPrefix(r, "set subnets")
		list, filled := strings.CutPrefix(c.Rules[min(i+3, len(c.Rules)-1)], "elements = { ")
		if !isSet || !filled {
			continue
		}
		for a := range strings.SplitSeq(strings.TrimSuffix(list, " }"), ", ") {
			out = append(out, a+"/"+strings.TrimSuffix(name, " {"))
		}
	}
	return out
}

func TestRegistry(t *testing.T) {
	a, b := lan(1), lan(1)
	b.UUID = netB
	type step struct {
		event Event
		want  string
	}
	for name, steps := range map[string][]step{
		"a network is named in the ground before its manager starts": {
			{HostApplierReady{}, ""},
			{OwnersFound{}, ""},
			{NetworkDesired{a}, "record ni1=1"},
			{ConfigKnown{}, "ground#1 of 1"},
			{NetworkDesired{b}, "record ni2=2"},
			{HostApplied{Seq: 1}, "spawn ni1=1, ground#2 of 1"},
			{HostApplied{Seq: 2}, "spawn ni2=2"},
		},
		"it stays named until its manager has ended, and its number is free again": {
			{HostApplierReady{}, ""},
			{OwnersFound{}, ""},
			{NetworkDesired{a}, "record ni1=1"},
			{ConfigKnown{}, "ground#1 of 1"},
			{HostApplied{Seq: 1}, "spawn ni1=1"},
			{NetworkUndesired{netA}, ""},
			{ManagerEnded{netA}, "forget ni1, ground#2 of 0"},
			{HostApplied{Seq: 2}, ""},
			{NetworkDesired{b}, "record ni2=1, ground#3 of 1"},
		},
		"what the journal knows of a network that is nowhere is forgotten, once all is known": {
			{HostApplierReady{}, ""},
			{NetworkDesired{a}, ""},
			{ConfigKnown{}, ""},
			{OwnersFound{}, "record ni1=1, ground#1 of 1, forget ni9"},
		},
		"networks wait while the host can't be read, and it is searched again, less and less often": {
			{HostApplierReady{}, ""},
			{NetworkDesired{a}, ""},
			{ConfigKnown{}, ""},
			{OwnersUnread{"too busy"}, "find owners in 1s, ground: too busy"},
			{OwnersUnread{"too busy"}, "find owners in 2s, ground: too busy"},
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5, Unmarked: true}}},
				"record ni1=5, spawn ni1=5, ground#1 of 1 with unmarked ones"},
			{HostApplied{Seq: 1}, "find owners in 1s"},
			{OwnersUnread{"too busy"}, "find owners in 2s"}, // the host state is as desired
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5}}}, "ground#2 of 1"},
		},
		"what is on the host is managed though no config names it, and the ground is left alone": {
			{HostApplierReady{}, ""},
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5}}}, "record ni1=5, spawn ni1=5"},
			{NetworkDesired{b}, "record ni2=1"},
			{ConfigKnown{}, "ground#1 of 1"},
			{HostApplied{Seq: 1}, "spawn ni2=1"},
		},
		"a network whose subnet changes is touched once the chains that lead to it are there": {
			{HostApplierReady{}, ""}, {OwnersFound{}, ""},
			{NetworkDesired{a}, "record ni1=1"},
			{ConfigKnown{}, "ground#1 of 1"},
			{HostApplied{Seq: 1}, "spawn ni1=1"},
			{NetworkDesired{moved(a)}, "ground#2 of 1"},
			{HostApplied{Seq: 2, Failed: "no"}, "touch moved [1], ground: no, retry in 100ms"},
			{HostRetryDue{2}, "ground#3 of 1"},
			{NetworkDesired{a}, ""},
			{HostApplied{Seq: 3}, "ground#4 of 1"},
			{HostApplied{Seq: 4}, "touch moved [1]"},
		},
		"a network that changes and changes back is looked at whole: the branch that led to it went and came": {
			{HostApplierReady{}, ""}, {OwnersFound{}, ""},
			{NetworkDesired{overlaps(a)}, "record ni1=1"},
			{ConfigKnown{}, "ground#1 of 1"},
			{HostApplied{Seq: 1}, "spawn ni1=1"},
			{NetworkDesired{a}, "ground#2 of 1"},
			{NetworkDesired{overlaps(a)}, ""},
			{HostApplied{Seq: 2}, "ground#3 of 1"},
			{HostApplied{Seq: 3}, "touch moved [1]"},
			{HostRetryDue{3}, "ground#4 of 1"},
			{HostApplied{Seq: 4}, ""},
			// While the host state fails, it is looked at after each failure, and once more.
			{NetworkDesired{a}, "ground#5 of 1"},
			{HostApplied{Seq: 5, Failed: "no"}, "touch moved [1], ground: no, retry in 100ms"},
			{NetworkDesired{overlaps(a)}, "ground#6 of 1"},
			{HostChanged{Networks: []int{1}}, "touch [1]"},
			{HostApplied{Seq: 6, Failed: "no"}, "touch moved [1], ground: no, retry in 200ms"},
			{HostRetryDue{6}, "ground#7 of 1"},
			{HostApplied{Seq: 7}, "touch moved [1]"},
			// Its subnet is the host's for a moment.
			{NetworkWithdrawn{netA, true}, "ground#8 of 0"},
			{NetworkWithdrawn{netA, false}, ""},
			{HostApplied{Seq: 8}, "ground#9 of 1"},
			{HostApplied{Seq: 9}, "touch moved [1]"},
		},
		"a network that was found, and gets its config late, is looked at whole": {
			{HostApplierReady{}, ""},
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5}}}, "record ni1=5, spawn ni1=5"},
			{ConfigKnown{}, "ground#1 of 0"},
			{NetworkDesired{a}, ""},
			{HostApplied{Seq: 1}, "ground#2 of 1"},
			{HostApplied{Seq: 2}, "touch moved [5]"},
		},
		"the guard spares what a former release made, until it was made anew": {
			{HostApplierReady{}, ""},
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5, Unmarked: true}}}, "record ni1=5, spawn ni1=5"},
			{NetworkDesired{a}, ""},
			{ConfigKnown{}, "ground#1 of 1 with unmarked ones"},
			{HostApplied{Seq: 1}, "find owners in 1s"},
			{HostRetryDue{1}, "ground#2 of 1 with unmarked ones"},
			{HostApplied{Seq: 2}, ""}, // one search at a time
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5, Unmarked: true}}},
				"ground#3 of 1 with unmarked ones"},
			{HostApplied{Seq: 3}, "find owners in 2s"},
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5}}}, "ground#4 of 1"},
			{HostApplied{Seq: 4}, ""},
		},
		"the table of frames spares what a former release made, until it was made anew": {
			{HostApplierReady{}, ""},
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5, OldFrames: true}}}, "record ni1=5, spawn ni1=5"},
			{NetworkDesired{a}, ""},
			{ConfigKnown{}, "ground#1 of 1 with old frames"},
			{HostApplied{Seq: 1}, "find owners in 1s"},
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5, OldFrames: true}}},
				"ground#2 of 1 with old frames"},
			{HostApplied{Seq: 2}, "find owners in 2s"},
			{OwnersFound{[]netstate.Owner{{Number: 5, OldFrames: true}}}, "ground#3 of 1 with old frames"},
			{HostApplied{Seq: 3}, "find owners in 4s"},
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5}}}, "ground#4 of 1"},
			{HostApplied{Seq: 4}, ""},
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5, OldFrames: true}}}, "ground#5 of 1"},
		},
		"what others flush is looked at in the ground first, then in the networks": {
			{HostApplierReady{}, ""},
			{OwnersFound{}, ""},
			{NetworkDesired{a}, "record ni1=1"},
			{ConfigKnown{}, "ground#1 of 1"},
			{HostApplied{Seq: 1}, "spawn ni1=1"},
			{HostChanged{Networks: []int{1}}, "ground#2 of 1"},
			{HostChanged{Networks: []int{1, 3}}, ""}, // may have happened after the observation
			{HostApplied{Seq: 2}, "ground#3 of 1"},
			{HostApplied{Seq: 3}, "touch [1 3]"},
			{HostChanged{}, "ground#4 of 1"},
			{HostApplied{Seq: 4, Failed: "no iptables"}, "ground: no iptables, retry in 100ms"},
			{HostChanged{Networks: []int{1}}, "touch [1]"}, // failed host state waits for its retry
			{HostChanged{Networks: []int{1}, Full: true}, "touch [1] in full"},
			{HostChanged{Networks: []int{1}}, "touch [1]"},
		},
		"what others flush before a config is known, or beside no network, is no reason to change anything": {
			{HostChanged{Networks: []int{4}}, "touch [4]"},
			{HostApplierReady{}, ""},
			{OwnersFound{}, ""},
			{ConfigKnown{}, "ground#1 of 0"},
			{HostApplied{Seq: 1}, ""},
			{HostChanged{}, ""},
		},
		"a config that is known first is that of the network that is found": {
			{HostApplierReady{}, ""},
			{NetworkDesired{a}, ""},
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5}}}, "record ni1=5, spawn ni1=5"},
		},
		"of two networks that claim one uuid the second is an orphan": {
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5}, {Name: netA.String(), Number: 6}}},
				"record ni1=5, spawn ni1=5, record " + orphan(6) + "=6, spawn " + orphan(6) + "=6"},
		},
		"a change that the host need not know costs no apply": {
			{HostApplierReady{}, ""},
			{OwnersFound{}, ""},
			{NetworkDesired{a}, "record ni1=1"},
			{ConfigKnown{}, "ground#1 of 1"},
			{HostApplied{Seq: 1}, "spawn ni1=1"},
			{NetworkDesired{func() netinst.NetworkInstanceConfig { c := a; c.DisplayName = "x"; return c }()}, ""},
			{NetworkDesired{func() netinst.NetworkInstanceConfig {
				c := a
				c.IPv4.Subnet = netip.MustParsePrefix("10.7.0.0/24")
				return c
			}()},
				"ground#2 of 1"},
		},
		"the host marks packets of known flows once a network keeps them": {
			{HostApplierReady{}, ""},
			{OwnersFound{}, ""},
			{NetworkDesired{a}, "record ni1=1"},
			{ConfigKnown{}, "ground#1 of 1"},
			{HostApplied{Seq: 1}, "spawn ni1=1"},
			{NetworkDesired{func() netinst.NetworkInstanceConfig { c := a; c.Flows = netinst.FlowsDrain; return c }()},
				"ground#2 of 1"},
			{HostApplied{Seq: 2}, "touch moved [1]"},
			{NetworkDesired{func() netinst.NetworkInstanceConfig { c := a; c.Flows = netinst.FlowsKeep; return c }()}, ""},
			{NetworkDesired{a}, "ground#3 of 1"},
		},
		"the host has zones once a network may have the subnet of another": {
			{HostApplierReady{}, ""},
			{OwnersFound{}, ""},
			{NetworkDesired{a}, "record ni1=1"},
			{ConfigKnown{}, "ground#1 of 1"},
			{HostApplied{Seq: 1}, "spawn ni1=1"},
			{NetworkDesired{overlaps(a)}, "ground#2 of 1"},
			{HostApplied{Seq: 2}, "touch moved [1]"},
			{NetworkDesired{overlaps(a)}, ""},
			{NetworkDesired{func() netinst.NetworkInstanceConfig {
				c := overlaps(a)
				c.Port = "" // nothing comes back to it
				return c
			}()}, "ground#3 of 1"},
			{HostApplied{Seq: 3}, "touch moved [1]"},
			{NetworkDesired{a}, "ground#4 of 1"},
		},
		"owners found twice are spawned once": {
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5}}}, "record ni1=5, spawn ni1=5"},
			{OwnersFound{[]netstate.Owner{{Name: netA.String(), Number: 5}}}, ""},
		},
		"a ground that fails is tried again and no manager starts": {
			{HostApplierReady{}, ""},
			{OwnersFound{}, ""},
			{NetworkDesired{a}, "record ni1=1"},
			{ConfigKnown{}, "ground#1 of 1"},
			{HostApplied{Seq: 1, Failed: "no iptables"}, "ground: no iptables, retry in 100ms"},
			{HostRetryDue{1}, "ground#2 of 1"},
			{HostApplied{Seq: 2}, "spawn ni1=1"},
		},
		"a network wanted again while its manager ends gets a new one": {
			{HostApplierReady{}, ""},
			{OwnersFound{}, ""},
			{NetworkDesired{a}, "record ni1=1"},
			{ConfigKnown{}, "ground#1 of 1"},
			{HostApplied{Seq: 1}, "spawn ni1=1"},
			{NetworkUndesired{netA}, ""},
			{NetworkDesired{a}, ""},
			{ManagerEnded{netA}, "spawn ni1=1"},
		},
		"the ground is looked at again each minute, as long as there are networks": {
			{HostApplierReady{}, ""},
			{OwnersFound{}, ""},
			{NetworkDesired{a}, "record ni1=1"},
			{ConfigKnown{}, "ground#1 of 1"},
			{HostApplied{Seq: 1}, "spawn ni1=1"},
			{HostRetryDue{1}, "ground#2 of 1"},
			{HostApplied{Seq: 2}, ""},
			{HostRetryDue{1}, ""}, // an older timer
			{HostRetryDue{2}, "ground#3 of 1"},
			{NetworkUndesired{netA}, ""},
			{HostApplied{Seq: 3}, ""},
			{ManagerEnded{netA}, "forget ni1, ground#4 of 0"},
			{HostApplied{Seq: 4}, ""},
			{HostRetryDue{3}, "ground#5 of 0"},
		},
		"an applier that died is asked again": {
			{HostApplierReady{}, ""},
			{OwnersFound{}, ""},
			{NetworkDesired{a}, "record ni1=1"},
			{ConfigKnown{}, "ground#1 of 1"},
			{HostApplierReady{}, "ground#2 of 1"},
			{HostApplied{Seq: 1}, ""},
			{HostApplied{Seq: 2}, "spawn ni1=1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var journal map[uuid.UUID]int
			if strings.HasPrefix(name, "what the journal knows") {
				journal = map[uuid.UUID]int{uuid.MustParse("0a000000-0000-4000-8000-000000000009"): 4}
			}
			r := New(journal)
			for i, s := range steps {
				if got := registryText(r.Step(s.event)); got != s.want {
					t.Fatalf("step %d, %T: got %q, want %q", i+1, s.event, got, s.want)
				}
			}
		})
	}
}

func overlaps(c netinst.NetworkInstanceConfig) netinst.NetworkInstanceConfig {
	c.IPv4.MayOverlap = true
	return c
}

// orphan returns registryText's name for the orphan of a number.
func orphan(n int) string {
	id := OrphanUUID(n).String()
	return "ni" + id[len(id)-1:]
}

// A network gets the lowest number that no other has or may reclaim, and none above the maximum.
func TestNumbersOfNetworks(t *testing.T) {
	network := func(i int) netinst.NetworkInstanceConfig {
		c := lan(1)
		c.UUID = uuid.UUID{14: byte(i >> 8), 15: byte(i)}
		return c
	}
	journal := map[uuid.UUID]int{network(1).UUID: 2, network(2).UUID: 2, network(3).UUID: 1}
	r := New(journal)
	r.Step(OwnersFound{})
	for i, want := range map[int]int{1: 2} {
		if r.Step(NetworkDesired{network(i)}); r.Number(network(i).UUID) != want {
			t.Errorf("%d has number %d, want %d", i, r.Number(network(i).UUID), want)
		}
	}
	if r.Step(NetworkDesired{network(2)}); r.Number(network(2).UUID) != 3 { // 1 is reserved for a network that may return
		t.Errorf("a number journalled twice: %d", r.Number(network(2).UUID))
	}
	if r.Step(NetworkDesired{network(3)}); r.Number(network(3).UUID) != 1 {
		t.Errorf("the one that came back: %d", r.Number(network(3).UUID))
	}
	r = New(nil)
	r.Step(OwnersFound{})
	for i := range netinst.MaxNumber + 1 {
		r.Step(NetworkDesired{network(i + 1)})
	}
	if last, over := r.Number(network(netinst.MaxNumber).UUID),
		r.Number(network(netinst.MaxNumber+1).UUID); last != netinst.MaxNumber ||
		over != 0 {
		t.Errorf("the last has %d, one more %d", last, over)
	}
}

func TestTheJournalledNumberIsKeptAndTheAliasWins(t *testing.T) {
	r := New(map[uuid.UUID]int{netA: 7, netB: 3})
	r.Step(OwnersFound{[]netstate.Owner{{Name: netB.String(), Number: 9}}})
	r.Step(NetworkDesired{lan(1)})
	if a, b := r.Number(netA), r.Number(netB); a != 7 || b != 9 {
		t.Errorf("numbers are %d and %d, want 7 (journal) and 9 (alias)", a, b)
	}
}

func TestNetworksThatHaveNoNumberAreNotTheHosts(t *testing.T) {
	r := New(nil)
	r.Step(NetworkDesired{lan(1)}) // before the host is known
	if got := r.Networks([]uuid.UUID{netA, netB}); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// A node without a valid config applies no host state, whose success would end the problem.
func TestAHostThatCanBeReadAgainIsNoProblem(t *testing.T) {
	r := New(nil)
	r.Step(OwnersUnread{"too busy"})
	if got := r.Step(OwnersFound{}); !slices.Contains(got, Effect(HostProblem{})) {
		t.Errorf("%+v", got)
	}
}

// A search that began before a network had ended gives its number to no other.
func TestALateSearchGivesNoNumberTwice(t *testing.T) {
	gone, heir, old := uuid.New(), uuid.New(), uuid.New()
	r := New(nil)
	late := OwnersFound{[]netstate.Owner{{Name: gone.String(), Number: 1},
		{Name: old.String(), Number: 2, Unmarked: true}}}
	for _, e := range []Event{
		late, HostApplierReady{}, NetworkDesired{netinst.NetworkInstanceConfig{UUID: gone}},
		NetworkDesired{netinst.NetworkInstanceConfig{UUID: old}}, ConfigKnown{},
		NetworkUndesired{gone}, ManagerEnded{gone}, NetworkDesired{netinst.NetworkInstanceConfig{UUID: heir}}, late,
	} {
		r.Step(e)
	}
	if r.Number(gone) != 0 || r.Number(heir) != 1 || r.Number(old) != 2 {
		t.Errorf("numbers %d, %d, %d: want 0, 1, 2", r.Number(gone), r.Number(heir), r.Number(old))
	}
}

// moved returns a network with another subnet.
func moved(c netinst.NetworkInstanceConfig) netinst.NetworkInstanceConfig {
	c.IPv4.Subnet = netip.MustParsePrefix("10.77.0.0/24")
	return c
}
