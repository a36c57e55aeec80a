package netstate

import (
	"slices"
	"strings"
	"time"
)

// Verb is what an Op does.
type Verb string

// The verbs. Change takes an object from Have to Want in place, or by the platform's atomic step for its kind; Reload
// makes a running process read its files again.
const (
	Add    Verb = "add"
	Change Verb = "change"
	Reload Verb = "reload"
	Remove Verb = "remove"
)

// Item is one object of an Op: Have is nil on Add, Want is nil on Remove.
type Item struct {
	Want, Have Object
}

// ID returns the ID of the item's object.
func (it Item) ID() ID {
	if it.Want != nil {
		return it.Want.ID()
	}
	return it.Have.ID()
}

// Op is one step of a Plan. It has one item, with three exceptions: all chains that are added or changed are one Op,
// all that are removed another, and all links that are removed for good a third.
type Op struct {
	Verb  Verb
	Kind  Kind
	Items []Item
}

func (o Op) String() string { return string(o.Verb) + " " + string(o.Kind) + " " + o.Objects() }

// Objects returns the names of its objects.
func (o Op) Objects() string {
	names := make([]string, len(o.Items))
	for i, it := range o.Items {
		names[i] = it.ID().Name
	}
	return strings.Join(names, ", ")
}

// Deadline returns how long the op may take; no other code decides that (design §2).
func (o Op) Deadline() time.Duration {
	switch {
	case o.Kind == KindProcess:
		return 3 * time.Second
	case o.Kind == KindVPN: // charon loads its plugins, and may read certificates
		return 10 * time.Second
	case o.Kind == KindLink && o.Verb == Remove:
		// Removals of links at the same time run together, and a thousand bridges take the kernel 17 s.
		return 30 * time.Second
	}
	return 5 * time.Second // a restore waits for the lock of the tables
}

// Plan is the ordered steps from one State to another.
type Plan []Op

// planOrder returns the place in a plan of an object that is added or changed. The order is make before break.
func planOrder(o Object) int {
	switch o := o.(type) {
	case Sysctl:
		if o.Link != "" {
			return 5 // see Forwarding6Of
		}
		return 6 // a link forwards only once the chains are in place
	case File:
		if o.Dir {
			return 1
		}
		return 2
	case Set:
		return 2
	case Chain:
		return 3
	case Link:
		switch o.Type {
		case Bridge:
			return 4
		case VXLAN:
			return 10 // after the address, the route and the rule that lead an encrypted one into its tunnel
		}
		return 5
	case VPN:
		return 4 // before what is on its link, and after the chains that filter what comes by it
	case Address:
		return 6
	case Port:
		switch {
		case o.Master != "":
			return 11
		case o.Foreign && len(o.After) > 0:
			return 8 // a VLAN, after its parent
		}
		return 7
	case Route:
		if o.Via != "" {
			return 9 // the kernel refuses a gateway without a route to it
		}
		return 8
	case Rule:
		if o.IsEnd() {
			return 10 // once each rule that it leads past can be reached by another
		}
		return 9
	case Process:
		return 10
	}
	return 99
}

// removalOrder returns the place of a removed object among the removals.
func removalOrder(o Object) int {
	switch o := o.(type) {
	case Port:
		if o.Master != "" {
			return 0
		}
		return 6
	case Process, VPN: // while the rules still lead what a tunnel sends at its end to the uplink
		return 1
	case Rule:
		if o.IsEnd() {
			return 1
		}
		return 2
	case Route:
		return 3
	case Address:
		return 4
	case Chain:
		return 5
	case File:
		if o.Dir {
			return 8
		}
		return 7
	case Set:
		return processChange // no chain names it, and no process fills it
	case Link:
		if o.Type == Veth {
			return 9
		}
		return 10
	case Sysctl:
		return 4 // before the chains are removed
	}
	return 99
}

// step is an op and its place in the first half (makes) or the second half (breaks) of a plan.
type step struct {
	op    Op
	phase int
}

// releaseOrder is the place, in the first half, of a foreign link that leaves: before the chains, because once these no
// longer name the link, nothing blocks its frames.
const releaseOrder = 2

// filterOrder is the place, in either half, of a bridge that begins or ends to keep VLANs apart: before chains let
// tagged frames pass, and after the ports have left that only the filter keeps apart.
const filterOrder = 2

func filters(o Object) bool {
	l, isLink := o.(Link)
	return isLink && l.FiltersVLANs()
}

// Diff returns the Plan that leads from have to want. A link that can't be changed in place is removed just before it
// is added. A process is started or replaced after files have been removed, so that it does not know their content.
func Diff(have, want State) Plan {
	if isAll(have, want) {
		return Plan{}
	}
	var makes, breaks []step
	var chains []Item
	recreated := recreations(have, want)
	early := map[ID]bool{} // removed in the first half
	come, gone := fileChanges(have, want)
	for _, id := range want.IDs() {
		w, h := want[id], have[id]
		if id.Kind != KindLink && isOn(w, recreated) || LeansOn(w, have, want) { // gone with it, whatever was observed
			h = nil
		}
		if h != nil && Same(h, w) && (id.Kind != KindProcess || !come && !gone) {
			continue
		}
		if id.Kind == KindChain {
			chains = append(chains, Item{w, h})
			continue
		}
		at := planOrder(w)
		verb := Change
		switch {
		case h == nil && id.Kind == KindProcess && gone: // files of a process that ended, perhaps in the middle of a plan
			breaks = append(breaks, step{Op{Add, id.Kind, []Item{{w, nil}}}, processChange})
			continue
		case h == nil:
			verb = Add
			makes = append(makes, displaced(w, have, want, early)...)
		case id.Kind == KindLink && !recreated[id.Name] && filters(h) != filters(w):
			s := step{Op{Change, id.Kind, []Item{{w, h}}}, filterOrder}
			if filters(w) {
				makes = append(makes, s)
			} else { // once the ports have left that it keeps apart
				breaks = append(breaks, s)
			}
			continue
		case id.Kind == KindLink && recreated[id.Name]:
			makes = append(makes, step{Op{Remove, id.Kind, []Item{{nil, h}}}, at})
			h, verb = nil, Add
		case id.Kind == KindProcess && onlyReload(h.(Process), w.(Process)):
			first, last := reloads(h.(Process), w.(Process), come, gone)
			makes, breaks = append(makes, first...), append(breaks, last...)
			continue
		case id.Kind == KindProcess:
			first, last := replacements(h.(Process), w.(Process), have, gone)
			makes, breaks = append(makes, first...), append(breaks, last...)
			continue
		}
		makes = append(makes, step{Op{verb, id.Kind, []Item{{w, h}}}, at})
	}
	if len(chains) > 0 {
		makes = append(makes, step{Op{Change, KindChain, chains}, planOrder(Chain{})})
	}
	first, rest := removals(have, want, early)
	return append(inOrder(append(makes, first...)), inOrder(append(breaks, rest...))...)
}

// isAll reports whether an observed state is exactly the desired one: that is what almost every observation finds, and
// costs far less than a plan.
func isAll(have, want State) bool {
	if len(have) != len(want) {
		return false
	}
	for id, w := range want {
		if !Same(have[id], w) {
			return false
		}
		if l, isLink := w.(Link); isLink && l.Type == Veth && !strings.HasPrefix(l.Alias, markWords) {
			return false // it may be half created
		}
	}
	return true
}

// removals removes what is not desired: foreign links in the first half, objects in a withdrawn subnet before
// everything else, and all others in the second half.
func removals(have, want State, early map[ID]bool) (first, rest []step) {
	var chains, links []Item
	atOnce := withdraws(have, want)
	for _, id := range have.IDs() {
		if want[id] != nil || early[id] {
			continue
		}
		it := Item{nil, have[id]}
		p, port := have[id].(Port)
		at := slices.Index(withdrawnKinds, id.Kind)
		switch {
		case atOnce && at >= 0:
			first = append(first, step{Op{Remove, id.Kind, []Item{it}}, withdrawalOrder(at)})
		case id.Kind == KindSysctl && len(want) > 0:
			first = append(first, step{Op{Remove, id.Kind, []Item{it}}, closingOrder(id)})
		case id.Kind == KindChain:
			chains = append(chains, it)
		case id.Kind == KindLink:
			links = append(links, it)
		case port && p.Foreign:
			first = append(first, step{Op{Remove, id.Kind, []Item{it}}, releaseOrder})
		default:
			rest = append(rest, step{Op{Remove, id.Kind, []Item{it}}, removalOrder(have[id])})
		}
	}
	if len(chains) > 0 {
		rest = append(rest, step{Op{Remove, KindChain, chains}, removalOrder(Chain{})})
	}
	if len(links) > 0 { // the kernel waits only once for all links of one removal
		slices.SortStableFunc(links, func(a, b Item) int { return removalOrder(a.Have) - removalOrder(b.Have) })
		rest = append(rest, step{Op{Remove, KindLink, links}, removalOrder(links[0].Have)})
	}
	return first, rest
}

// displaced removes, and records in early, the addresses that must go before w is added: for the kernel, a later
// address of the same subnet is a secondary of the first, and is removed with it.
func displaced(w Object, have, want State, early map[ID]bool) []step {
	a, ok := w.(Address)
	if !ok {
		return nil
	}
	var steps []step
	for _, id := range have.IDs() {
		if old, ok := have[id].(Address); ok && want[id] == nil && a.displaces(old) {
			early[id] = true
			steps = append(steps, step{Op{Remove, id.Kind, []Item{{nil, old}}}, planOrder(w)})
		}
	}
	return steps
}

// inOrder returns the ops of steps by phase; within a phase they keep their order.
func inOrder(steps []step) Plan {
	slices.SortStableFunc(steps, func(a, b step) int { return a.phase - b.phase })
	plan := make(Plan, len(steps))
	for i, s := range steps {
		plan[i] = s.op
	}
	return plan
}
