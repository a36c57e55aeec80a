package optimize

import (
	"fmt"
	"strings"

	"edgespan/config"
)

// Weights of a site whose radios can't all be alike (reference §1.17): with a radio that has two links between DNs,
// any other, and one whose radios are mixed now. A site that users mixed is mixed in every solution, so its weight is
// irrelevant.
const (
	hybridSplit = 100000
	hybrid      = 1000
	hybridNow   = 999
)

// The values of a site's variable; a group's are the first two, for its first radio.
const (
	allOdd, allEven, mixed = 0, 1, 2
	odd, even              = 1, 2
)

// shift makes one hybrid site outweigh any number of changed radios.
const shift = 24

// colouring is the assignment of polarities: the radios of a group alternate along its links, so one radio determines
// all; each site should have radios of one polarity.
type colouring struct {
	*run
	user  []setting // by radio
	now   []int     // odd, even or 0, by radio
	fixed []int     // the value that users force on a group, or -1
}

// polarity assigns odd and even so that the two ends of every wireless link differ, with the least weight of mixed
// sites and, among those solutions, the fewest changes.
func (r *run) polarity() []assignment {
	c := colouring{run: r, fixed: make([]int, len(r.net.groups))}
	for _, radio := range r.net.radios {
		c.user = append(c.user, r.view.user(radio.node, radio.mac, polarity))
		now, known := r.view.now(radio.node, radio.mac, polarity)
		if !known {
			now = int64(radio.polarity)
		}
		c.now = append(c.now, parityOf(now))
	}
	for g := range r.net.groups {
		c.checkCycle(g)
		c.fixed[g] = c.force(g)
	}
	c.checkHybrids()
	if len(r.view.faults) > 0 {
		return nil
	}
	var out []assignment
	for i, v := range c.solve() {
		radio := r.net.radios[i]
		value := int64(v)
		if c.user[i].given() {
			value = c.user[i].value
		}
		out = append(out, assign(radio.node, radio.mac, polarity, value))
	}
	return out
}

// parityOf returns odd for odd and hybrid odd, even for even and hybrid even, 0 for anything else.
func parityOf(v int64) int {
	switch v {
	case 1, 3:
		return odd
	case 2, 4:
		return even
	}
	return 0
}

// checkCycle reports a cycle of links that returns to a radio at the wrong polarity.
func (c *colouring) checkCycle(g int) {
	for _, l := range c.net.groups[g].links {
		ends := c.net.links[l].ends
		if c.net.radios[ends[0]].differs != c.net.radios[ends[1]].differs {
			continue
		}
		macs, nodes := c.cycle(ends)
		c.conflict([]string{"links", c.net.links[l].name}, "closes an odd cycle of links, which no polarities solve: "+
			strings.Join(macs, ", "),
			"must be an even number of links in a cycle", nodes...)
	}
}

// cycle returns the radios on a path between the ends of a link over other links.
func (c *colouring) cycle(ends [2]int) (macs, nodes []string) {
	from := map[int]int{ends[0]: ends[0]}
	queue := []int{ends[0]}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, l := range c.net.radios[queue[0]].links {
			link := c.net.links[l]
			to := link.other(queue[0])
			if _, seen := from[to]; !seen && link.ends != ends {
				from[to] = queue[0]
				queue = append(queue, to)
			}
		}
	}
	macs, nodes = []string{c.net.radios[ends[0]].mac}, []string{c.net.radios[ends[0]].node}
	for at := ends[1]; at != ends[0]; at = from[at] {
		macs, nodes = append(macs, c.net.radios[at].mac), append(nodes, c.net.radios[at].node)
	}
	return macs, nodes
}

// force returns the value that users' polarities force on a group, -1 for none.
func (c *colouring) force(g int) int {
	value, by := -1, 0
	for _, radio := range c.net.groups[g].radios {
		user := c.user[radio]
		if !user.given() {
			continue
		}
		v := allOdd
		if (parityOf(user.value) == even) != c.net.radios[radio].differs {
			v = allEven
		}
		if value >= 0 && v != value {
			c.conflict(user.path, fmt.Sprintf("invalid value %d, which can't be respected: links join it to %s, where %s is %d",
				user.value, c.net.radios[by].mac, config.FormatPath(c.user[by].path), c.user[by].value),
				"a link has an odd and an even end", c.net.radios[radio].node, c.net.radios[by].node)
			continue
		}
		if value < 0 {
			value, by = v, radio
		}
	}
	return value
}

// checkHybrids reports links that users made hybrid at both ends.
func (c *colouring) checkHybrids() {
	for _, l := range c.net.links {
		a, z := c.user[l.ends[0]], c.user[l.ends[1]]
		if a.value > 2 && z.value > 2 {
			c.conflict(z.path, fmt.Sprintf("invalid value %d, as hybrid as %s is by %s at the other end of link %s",
				z.value, c.net.radios[l.ends[0]].mac, config.FormatPath(a.path), l.name), "must be one hybrid end of a link",
				c.net.radios[l.ends[0]].node, c.net.radios[l.ends[1]].node)
		}
	}
}

// solve assigns odd or even to each radio.
func (c *colouring) solve() []int {
	// Most networks have no odd cycle: then the size is irrelevant.
	if found := c.makeUniform(make([]int, len(c.now))); c.weight(found) == c.unavoidableWeight() {
		return found
	}
	p := c.problem(false)
	pl := p.plan()
	if len(pl.given) == 0 {
		return c.radios(c.problem(true).solve(pl))
	}
	c.result.Notes = append(c.result.Notes, fmt.Sprintf(
		"polarity: the network is too wide for the least set of hybrid sites: %d sites were made hybrid first, so there "+
			"may be fewer", len(pl.given)))
	// The solution must not depend on the current values, or a second run could find another one.
	found := c.makeUniform(c.radios(p.solve(pl)))
	if c.valid() && c.weight(c.now) <= c.weight(found) {
		return c.now
	}
	return found
}

// unavoidableWeight returns the weight of sites that links or users mix without any cycle of sites.
func (c *colouring) unavoidableWeight() int64 {
	p, bySite := c.fixedParities()
	var sum int64
	weights := c.weights(false)
	for s, radios := range bySite {
		if !p.uniform(radios) {
			sum += weights[s]
		}
	}
	return sum
}

// problem has a variable for each site, followed by one for each group. With current it prefers the current values.
func (c *colouring) problem(current bool) *problem {
	sites := len(c.net.sites)
	p := newProblem(sites + len(c.net.groups))
	weights := c.weights(current)
	for s := range sites {
		p.cost[s] = []int64{0, 0, weights[s] << shift}
		p.give[s] = mixed
	}
	for g, group := range c.net.groups {
		v := sites + g
		p.cost[v] = []int64{0, 0}
		for _, radio := range group.radios {
			differs := c.net.radios[radio].differs
			p.pair(c.net.radios[radio].site, v, func(site, group int) bool {
				return site == mixed || (site == allEven) == ((group == allEven) != differs)
			})
			if now := c.now[radio]; current && now != 0 {
				change := allOdd
				if (now == odd) != differs {
					change = allEven
				}
				p.cost[v][change]++
			}
		}
		if fixed := c.fixed[g]; fixed >= 0 {
			p.cost[v][1-fixed] = never
		}
	}
	return p
}

// radios converts the values of groups to values of radios.
func (c *colouring) radios(values []int) []int {
	out := make([]int, len(c.net.radios))
	for g, group := range c.net.groups {
		for _, radio := range group.radios {
			out[radio] = odd
			if (values[len(c.net.sites)+g] == allEven) != c.net.radios[radio].differs {
				out[radio] = even
			}
		}
	}
	return out
}

// weights returns the weight of each site if it is mixed.
func (c *colouring) weights(current bool) []int64 {
	out := make([]int64, len(c.net.sites))
	now := c.mixed(c.now)
	split := make([]bool, len(out))
	for _, r := range c.net.radios {
		between := 0
		for _, l := range r.links {
			if ends := c.net.links[l].ends; c.net.radios[ends[0]].dn && c.net.radios[ends[1]].dn {
				between++
			}
		}
		split[r.site] = split[r.site] || between > 1
	}
	for s := range out {
		switch {
		case split[s]:
			out[s] = hybridSplit
		case current && now[s]:
			out[s] = hybridNow
		default:
			out[s] = hybrid
		}
	}
	return out
}

// mixed returns the sites that have both polarities.
func (c *colouring) mixed(polarities []int) []bool {
	seen := make([]int, len(c.net.sites))
	for i, p := range polarities {
		seen[c.net.radios[i].site] |= p // odd and even are bits
	}
	out := make([]bool, len(seen))
	for s, bits := range seen {
		out[s] = bits == odd|even
	}
	return out
}
