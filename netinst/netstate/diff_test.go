package netstate

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDiffOfAStateWithItselfIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := damaged(t)
		if p := Diff(s, maps.Clone(s)); len(p) > 0 {
			t.Fatalf("plan %v", p)
		}
	})
}

func TestAPlanLeadsFromTheObservedToTheDesiredState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, want := damaged(t), network(t)
		for _, op := range Diff(have, want) {
			do(have, op)
		}
		if d := cmp.Diff(want.String(), have.String()); d != "" {
			t.Fatalf("after the plan (-want +got):\n%s", d)
		}
	})
}

// The invariants between any two steps of a plan, not only at its end.
func TestTheOrderOfAPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, want := damaged(t), network(t)
		plan := Diff(have, want)
		now := maps.Clone(have)
		for i, op := range plan {
			for _, it := range op.Items {
				checkStep(t, plan, i, it, now)
			}
			do(now, op)
			for id, o := range now {
				p, ok := o.(Port)
				if !ok || p.Master == "" || want[id] == nil && have[id] == nil {
					continue
				}
				if !stands(now, p) {
					t.Fatalf("after step %d, %s, %s is up without one of %v\n%s", i, op, id, p.Needs(), spell(plan))
				}
			}
		}
		checkShape(t, plan)
	})
}

// checkStep checks what one item of step i must find.
func checkStep(t *rapid.T, plan Plan, i int, it Item, now State) {
	switch it.Want.(type) {
	case nil, Chain:
		return
	case Process:
		if plan[i].Verb != Add {
			return // it runs already
		}
	}
	for _, n := range it.Want.Needs() {
		if ours(n) && now[n] == nil {
			t.Fatalf("step %d, %s, comes before its need %s\n%s", i, plan[i], n, spell(plan))
		}
	}
}

// checkShape checks the order of the steps: all that create come before all that remove. Among the latter the chains
// follow the adapters' ports. A process starts, and one that changes is reloaded, after the files are removed, and
// before new links of its clients go up if no files are.
func checkShape(t *rapid.T, plan Plan) {
	const (
		makes = iota
		breaks
	)
	checkReloads(t, plan)
	at, chainsGone, filesGone, chained := makes, false, false, false
	for i, op := range plan {
		it := op.Items[0]
		recreates := op.Verb == Remove && op.Kind == KindLink && i+1 < len(plan) &&
			plan[i+1].Verb == Add && plan[i+1].Items[0].ID() == it.ID()
		stage := makes
		switch {
		case leaves(it, op.Verb): // before a chain is touched, not after
			if chained {
				t.Fatalf("step %d, %s, comes after the chains have changed\n%s", i, op, spell(plan))
			}
		case op.Verb == Remove && !recreates && !moves(plan[i:]):
			stage = breaks
		case op.Kind == KindProcess && (op.Verb == Change || filesGone):
			stage = breaks
		}
		filesGone = filesGone || op.Kind == KindFile && op.Verb == Remove
		if stage < at {
			t.Fatalf("step %d, %s, comes too late\n%s", i, op, spell(plan))
		}
		at = stage
		chained = chained || op.Kind == KindChain
		if op.Kind == KindChain && op.Verb == Remove {
			chainsGone = true
		}
		if p, ok := it.Have.(Port); ok && op.Verb == Remove && p.Master != "" && chainsGone {
			t.Fatalf("step %d, %s, comes after its chains have gone\n%s", i, op, spell(plan))
		}
		if recreates {
			checkRecreated(t, plan[i+1:], it.ID().Name)
		}
	}
}

// checkReloads checks when a process reads its files again: last after files are removed, and only that reload is
// recorded; before adapters' links go up if no files are removed.
func checkReloads(t *rapid.T, plan Plan) {
	for i, op := range plan {
		if op.Verb != Reload && (op.Verb != Change || op.Kind != KindProcess) {
			continue
		}
		gone := func(op Op) bool { return op.Kind == KindFile && op.Verb == Remove && !op.Items[0].Have.(File).Dir }
		again := slices.ContainsFunc(plan[i+1:], func(op Op) bool { return op.Verb == Reload })
		if slices.ContainsFunc(plan[i+1:], gone) && !again {
			t.Fatalf("step %d, %s, comes before files have gone\n%s", i, op, spell(plan))
		}
		if w, h := op.Items[0].Want.(Process), op.Items[0].Have.(Process); again && w.Reload != h.Reload {
			t.Fatalf("step %d, %s, is on record although another follows\n%s", i, op, spell(plan))
		}
		if op.Verb == Reload && !slices.ContainsFunc(plan, gone) && slices.ContainsFunc(plan[:i], func(op Op) bool {
			p, ok := op.Items[0].Want.(Port)
			return ok && p.Master != "" && op.Verb == Add
		}) {
			t.Fatalf("step %d, %s, comes after the link of a client is up\n%s", i, op, spell(plan))
		}
	}
}

// moves reports whether a plan begins with the first half of an address that moves within its subnet.
func moves(p Plan) bool {
	old, ok := p[0].Items[0].Have.(Address)
	if !ok || len(p) == 1 {
		return false
	}
	come, ok := p[1].Items[0].Want.(Address)
	return ok && old.Link == come.Link && old.Prefix[:7] == come.Prefix[:7] // "10.1.2."
}

// leaves reports whether a foreign link leaves edgespan's bridge.
func leaves(it Item, v Verb) bool {
	p, ok := it.Have.(Port)
	return ok && p.Foreign && v == Remove
}

// checkRecreated checks that a recreated link joins its bridge again: it is down, whatever was observed of the old one.
func checkRecreated(t *rapid.T, rest Plan, link string) {
	if !slices.ContainsFunc(rest, func(op Op) bool { return op.Verb == Add && op.Items[0].ID() == ID{KindPort, link} }) {
		t.Fatalf("%s is made anew and its port is not added again\n%s", link, spell(rest))
	}
}

func spell(p Plan) string {
	var lines []string
	for _, op := range p {
		lines = append(lines, op.String())
	}
	return strings.Join(lines, "\n")
}

// goldenFrom and goldenTo differ in everything that a plan can express.
func goldenFrom() State {
	return NewState(
		File{Path: "ni/1/conf", Dir: true}, File{Path: "ni/1/conf/old", Content: "x"},
		File{Path: "ni/1/conf/dnsmasq.conf", Content: "one"},
		Chain{Family: IPv4, Table: "filter", Name: "ES1-FWD", Rules: []string{"-j ES1-2E"}},
		Chain{Family: IPv4, Table: "filter", Name: "ES1-2E", Rules: []string{"-j DROP"}},
		Link{Name: "es1", Type: Bridge, MTU: 1500}, Port{Link: "es1"},
		Address{Link: "es1", Prefix: "10.1.0.1/24"},
		Link{Name: "es1a1", Type: Veth, Alias: markOf("a")}, Port{Link: "es1a1", Master: "es1"},
		Link{Name: "es1a2", Type: Veth, Alias: markOf("b")}, Port{Link: "es1a2", Master: "es1"},
		Route{Table: 20001, Dst: "0.0.0.0/0", Type: Unicast, Dev: "eth0", Via: "192.0.2.1"},
		Rule{Priority: 20001, From: "10.1.0.0/24", Table: 20001},
		Process{Name: "ni/1/dnsmasq", Argv: []string{"dnsmasq"}, Digest: "one"},
	)
}

func goldenTo() State {
	return NewState(
		Sysctl{Key: "net/ipv4/ip_forward", Value: "1"},
		File{Path: "ni/1/conf", Dir: true}, File{Path: "ni/1/conf/dnsmasq.conf", Content: "two"},
		File{Path: "ni/1/conf/hosts", Dir: true},
		Chain{Family: IPv4, Table: "filter", Name: "ES1-FWD", Rules: []string{"-j ES1-1E"}},
		Chain{Family: IPv4, Table: "filter", Name: "ES1-1E", Rules: []string{"-j DROP"}},
		Link{Name: "es1", Type: Bridge, MTU: 1400}, Port{Link: "es1"},
		Address{Link: "es1", Prefix: "10.2.0.1/24"},
		Link{Name: "es1a1", Type: Veth, Alias: markOf("c")}, Port{Link: "es1a1", Master: "es1"},
		Link{Name: "es1a3", Type: Veth, Alias: markOf("d")}, Port{Link: "es1a3", Master: "es1"},
		Route{Table: 20001, Dst: "0.0.0.0/0", Type: Unicast, Dev: "eth0", Via: "192.0.2.9"},
		Route{Table: 20001, Dst: "10.2.0.0/24", Type: Unicast, Dev: "es1"},
		Rule{Priority: 21001, To: "10.2.0.0/24", Table: 20001},
		Process{Name: "ni/1/dnsmasq", Argv: []string{"dnsmasq"}, Digest: "two"},
	)
}

func TestThePlanAsText(t *testing.T) {
	for name, c := range map[string]struct {
		have, want State
		plan       string
	}{
		"from nothing": {State{}, goldenFrom(), `
add file ni/1/conf
add file ni/1/conf/dnsmasq.conf
add file ni/1/conf/old
change chain ipv4/filter/ES1-2E, ipv4/filter/ES1-FWD
add link es1
add link es1a1
add link es1a2
add address es1 10.1.0.1/24
add port es1
add route 0.0.0.0/0 table 20001 metric 0
add rule 20001
add process ni/1/dnsmasq
add port es1a1
add port es1a2`},
		"a change of everything": {goldenFrom(), goldenTo(), `
add file ni/1/conf/hosts
change file ni/1/conf/dnsmasq.conf
change chain ipv4/filter/ES1-1E, ipv4/filter/ES1-FWD
change link es1
remove link es1a1
add link es1a1
add link es1a3
add address es1 10.2.0.1/24
add sysctl net/ipv4/ip_forward
add route 10.2.0.0/24 table 20001 metric 0
change route 0.0.0.0/0 table 20001 metric 0
add rule 21001
add port es1a1
add port es1a3
remove port es1a2
remove rule 20001
remove address es1 10.1.0.1/24
remove chain ipv4/filter/ES1-2E
remove file ni/1/conf/old
change process ni/1/dnsmasq
remove link es1a2`},
		"to nothing": {goldenTo(), State{}, `
remove port es1a1
remove port es1a3
remove process ni/1/dnsmasq
remove rule 21001
remove route 0.0.0.0/0 table 20001 metric 0
remove route 10.2.0.0/24 table 20001 metric 0
remove address es1 10.2.0.1/24
remove sysctl net/ipv4/ip_forward
remove chain ipv4/filter/ES1-1E, ipv4/filter/ES1-FWD
remove port es1
remove file ni/1/conf/dnsmasq.conf
remove file ni/1/conf
remove file ni/1/conf/hosts
remove link es1a1, es1a3, es1`},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(strings.TrimSpace(c.plan), spell(Diff(c.have, c.want))); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// The kernel removes a secondary address together with the first address of its subnet.
func TestAnAddressThatMovesWithinItsSubnetGoesBeforeItComes(t *testing.T) {
	for name, c := range map[string]struct{ have, want, plan string }{
		"in its subnet":        {"10.1.0.1/24", "10.1.0.9/24", "remove address es1 10.1.0.1/24\nadd address es1 10.1.0.9/24"},
		"to another":           {"10.1.0.1/24", "10.1.1.1/24", "add address es1 10.1.1.1/24\nremove address es1 10.1.0.1/24"},
		"with a longer prefix": {"10.1.0.1/24", "10.1.0.1/25", "add address es1 10.1.0.1/25\nremove address es1 10.1.0.1/24"},
	} {
		have, want := NewState(Address{Link: "es1", Prefix: c.have}), NewState(Address{Link: "es1", Prefix: c.want})
		if got := spell(Diff(have, want)); got != c.plan {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.plan)
		}
	}
}

func TestAProcessThatReloadsItsFilesIsNotReplaced(t *testing.T) {
	p := Process{Name: "ni/1/dnsmasq", Argv: []string{"dnsmasq"}, Digest: "a", Reload: "1"}
	for name, c := range map[string]struct {
		change func(*Process)
		want   Verb
	}{
		"other files":                {func(p *Process) { p.Reload = "2" }, Reload},
		"another digest":             {func(p *Process) { p.Digest = "b" }, Change},
		"both":                       {func(p *Process) { p.Digest, p.Reload = "b", "2" }, Change},
		"another command":            {func(p *Process) { p.Argv = []string{"dnsmasq", "-k"} }, ""},
		"another probe is no change": {func(p *Process) { p.Probe.Addr = "10.0.0.1:53" }, ""},
	} {
		w := p
		c.change(&w)
		got := Verb("")
		if plan := Diff(NewState(p), NewState(w)); len(plan) > 0 {
			got = plan[0].Verb
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
