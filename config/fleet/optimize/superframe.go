package optimize

import (
	"fmt"
	"strings"

	"edgespan/config"
)

// toCN is the superframe of a link to a client node: the firmware chooses.
const toCN = 255

// framing is the assignment of control superframes: two links of one radio between distribution nodes need different
// values, of two.
type framing struct {
	*run
	user []setting // by link
	now  []int64   // by link, -1 for none
}

// superframe assigns 0 or 1 to links between DNs, different for links that share a radio, and 255 to links of a CN. A
// chain of links has two solutions: users' values decide, then the fewest changes, then its first link gets 0.
func (r *run) superframe() []assignment {
	f := framing{run: r}
	for i := range r.net.links {
		f.user = append(f.user, f.ofUser(i))
		f.now = append(f.now, f.currentValue(i))
	}
	values := f.solve()
	var out []assignment
	for i, l := range r.net.links {
		a, z := r.net.radios[l.ends[0]], r.net.radios[l.ends[1]]
		out = append(out, assign(a.node, z.mac, superframe, values[i]), assign(z.node, a.mac, superframe, values[i]))
	}
	for _, h := range r.net.halves {
		out = append(out, assignment{path: []string{h.node, superframe.over, h.peer, "fwParams", superframe.name}})
	}
	return out
}

// currentValue returns the current value of both ends of a link, -1 if they differ.
func (f *framing) currentValue(link int) int64 {
	a, z := f.net.radios[f.net.links[link].ends[0]], f.net.radios[f.net.links[link].ends[1]]
	x, known := f.view.now(a.node, z.mac, superframe)
	y, both := f.view.now(z.node, a.mac, superframe)
	if !known || !both || x != y {
		return -1
	}
	return x
}

// joinsDNs reports whether a link joins two distribution nodes.
func (f *framing) joinsDNs(link int) bool {
	ends := f.net.links[link].ends
	return f.net.radios[ends[0]].dn && f.net.radios[ends[1]].dn
}

// ofUser returns the value that users set at both ends, or at one.
func (f *framing) ofUser(link int) setting {
	l := f.net.links[link]
	a, z := f.net.radios[l.ends[0]], f.net.radios[l.ends[1]]
	x, y := f.view.user(a.node, z.mac, superframe), f.view.user(z.node, a.mac, superframe)
	if x.given() && y.given() && x.value != y.value {
		f.conflict(y.path, fmt.Sprintf("invalid value %d, but %s, the other end of link %s, is %d", y.value,
			config.FormatPath(x.path),
			l.name, x.value),
			"must be one value for both ends", f.ends(link)...)
		return setting{}
	}
	if !x.given() {
		x = y
	}
	if x.given() && (x.value == toCN) == f.joinsDNs(link) {
		allowed := "must be 255: it is a link to a CN"
		if f.joinsDNs(link) {
			allowed = "must be 0 or 1: it is a link between DNs"
		}
		f.conflict(x.path, fmt.Sprintf("invalid value %d, for link %s", x.value, l.name), allowed, f.ends(link)...)
		return setting{}
	}
	return x
}

func (f *framing) solve() []int64 {
	p := newParities(len(f.net.links))
	for _, radio := range f.net.radios {
		f.alternate(p, radio)
	}
	heads := f.heads(p)
	values := make([]int64, len(f.net.links))
	for i := range values {
		values[i] = toCN
		if f.joinsDNs(i) {
			head, differs := p.head(i)
			values[i] = flipSuperframe(heads[head], differs)
		}
	}
	return values
}

func flipSuperframe(v int64, differs bool) int64 {
	if differs {
		return 1 - v
	}
	return v
}

// alternate gives the links of one radio different values.
func (f *framing) alternate(p *parities, r radio) {
	var links []int
	var names []string
	for _, l := range r.links {
		if f.joinsDNs(l) {
			links, names = append(links, l), append(names, f.net.links[l].name)
		}
	}
	if len(links) > 2 {
		f.conflict([]string{"links", names[2]}, "shares radio "+r.mac+" with "+
			strings.Join(append(names[:2:2], names[3:]...), ", "),
			"must be at most two links between DNs on one radio: there are two superframes", f.ends(links...)...)
		return
	}
	if len(links) < 2 {
		return
	}
	if x, y := f.peer(r, links[0]), f.peer(r, links[1]); x.node == y.node {
		f.conflict([]string{"links", names[1]}, "joins node "+x.node+" to "+r.mac+", as "+names[0]+
			" does: both have one superframe, by that MAC",
			"must be one link of a node to a MAC", f.ends(links...)...)
		return
	}
	a, differsA := p.head(links[0])
	z, differsZ := p.head(links[1])
	if a == z && differsA == differsZ {
		f.conflict([]string{"links", names[1]}, "closes an odd cycle of links that share radios, at "+r.mac+" with "+names[0],
			"must be an even number of links in a cycle: there are two superframes", f.ends(p.with(links[0])...)...)
	}
	p.join(links[0], links[1], true)
}

// peer returns the radio at the other end of a link.
func (f *framing) peer(r radio, link int) radio {
	a, z := f.net.radios[f.net.links[link].ends[0]], f.net.radios[f.net.links[link].ends[1]]
	if a.mac == r.mac {
		return z
	}
	return a
}

// heads returns the value of the first link of each chain.
func (f *framing) heads(p *parities) map[int]int64 {
	forced, first := map[int]int{}, map[int]bool{}
	changes := map[int]*[2]int{} // when the head is 0, and when it is 1
	heads := map[int]int64{}
	for i, user := range f.user {
		head, differs := p.head(i)
		if changes[head] == nil {
			changes[head], first[head] = new([2]int), differs
		}
		if now := f.now[i]; now == 0 || now == 1 {
			changes[head][1-flipSuperframe(now, differs)]++
		}
		if !user.given() || !f.joinsDNs(i) {
			continue
		}
		v := flipSuperframe(user.value, differs)
		if by, twice := forced[head]; twice && heads[head] != v {
			f.conflict(user.path,
				fmt.Sprintf("invalid value %d, which can't be respected: %s is %d, and links that share radios alternate",
					user.value, config.FormatPath(f.user[by].path), f.user[by].value), "must be 0 and 1 in turns", f.ends(i, by)...)
		} else if !twice {
			forced[head], heads[head] = i, v
		}
	}
	for head, n := range changes {
		if _, ok := forced[head]; !ok && (n[1] < n[0] || n[1] == n[0] && first[head]) {
			heads[head] = 1
		}
	}
	return heads
}
