package optimize

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"edgespan/config"
)

// steady is how much more a group's previous colour may cost and still be kept: about 1 dB.
const steady = 1.2589

// painting is the problem that golay codes and channels share: groups of links that interfere should have different
// colours.
type painting struct {
	*run
	name    Kind
	colours []int64
	user    []int64 // users' colour by group, 0 if no user sets it
	before  []int64 // the previous colour by group, 0 if unset or mixed
	disturb []map[int]float64
	total   []float64 // by group
}

// place is where a group's colour is written.
type place struct {
	node, mac string
	param     param
	link      string
}

// assignGolay assigns one code to the two ends of every link, to send and receive, and different codes to links that
// interfere. A user's 3 is kept; only 1 and 2 are assigned.
func (r *run) assignGolay() []assignment {
	channels := make([]int64, len(r.net.radios))
	for i, radio := range r.net.radios {
		channels[i], _ = r.view.now(radio.node, radio.mac, channel)
	}
	return r.paint(Golay, []int64{1, 2}, func(a, b int) bool {
		x, y := channels[r.net.links[a].ends[0]], channels[r.net.links[b].ends[0]]
		return x != 0 && y != 0 && x != y
	}, func(group group) []place {
		var out []place
		for _, l := range group.links {
			a, z := r.net.radios[r.net.links[l].ends[0]], r.net.radios[r.net.links[l].ends[1]]
			for _, p := range []param{txGolay, rxGolay} {
				out = append(out, place{a.node, z.mac, p, r.net.links[l].name}, place{z.node, a.mac, p, r.net.links[l].name})
			}
		}
		return out
	})
}

// channel assigns one of the allowed channels to all radios of a group.
func (r *run) channel() []assignment {
	channels := slices.Clone(r.in.Channels)
	if len(channels) == 0 {
		channels = []int64{2}
	}
	slices.Sort(channels)
	return r.paint(Channel, slices.Compact(channels), func(int, int) bool { return false }, func(group group) []place {
		var out []place
		for _, i := range group.radios {
			radio := r.net.radios[i]
			for _, l := range radio.links[:min(1, len(radio.links))] {
				out = append(out, place{radio.node, radio.mac, channel, r.net.links[l].name})
			}
		}
		return out
	})
}

// channelFaults reports channels that can't be assigned.
func channelFaults(channels []int64) config.Faults {
	var faults config.Faults
	for _, c := range channels {
		if !slices.Contains(channel.allowed, c) {
			faults.Add([]string{"channels"}, fmt.Sprintf("has %d", c), channel.words)
		}
	}
	return faults
}

func (r *run) paint(name Kind, colours []int64, apart func(a, b int) bool, places func(group) []place) []assignment {
	n := len(r.net.groups)
	p := painting{run: r, name: name, colours: colours, user: make([]int64, n), before: make([]int64, n),
		total: make([]float64, n)}
	for g, group := range r.net.groups {
		p.readGroup(g, places(group))
	}
	if len(r.view.faults) > 0 {
		return nil
	}
	p.disturb = r.interference(apart)
	for g, others := range p.disturb {
		for _, h := range sorted(others) {
			p.total[g] += others[h]
		}
	}
	chosen := p.solve()
	var out []assignment
	for g, group := range r.net.groups {
		for _, at := range places(group) {
			out = append(out, assign(at.node, at.mac, at.param, chosen[g]))
		}
	}
	return out
}

// readGroup reads the values of a group, and those that users set. Contradicting users are a fault; a contradicting old
// assignment is ignored.
func (p *painting) readGroup(g int, places []place) {
	var first setting
	for i, at := range places {
		now, _ := p.view.now(at.node, at.mac, at.param)
		if i == 0 {
			p.before[g] = now
		}
		if now != p.before[g] || !slices.Contains(p.colours, now) {
			p.before[g] = 0
		}
		user := p.view.user(at.node, at.mac, at.param)
		switch {
		case !user.given():
		case p.name == Channel && !slices.Contains(p.colours, user.value):
			p.view.faults.Add(user.path, fmt.Sprintf("invalid value %d, for %s", user.value, at.link),
				fmt.Sprintf("must be one of the channels %v", p.colours))
		case !first.given():
			first, p.user[g] = user, user.value
		case user.value != first.value:
			p.conflict(user.path,
				fmt.Sprintf("invalid value %d for %s, but %s is %d, and both are tied by links that share radios",
					user.value, at.link, config.FormatPath(first.path), first.value), "must be one value for all of them", at.node,
				first.path[1])
		}
	}
}

// solve chooses the colour of each group: first users' values, then groups that can all differ from those they
// interfere with, along the interference, then the others, those with most interference first.
func (p *painting) solve() []int64 {
	chosen := slices.Clone(p.user)
	rest, cover := p.cover()
	seen := make([]bool, len(chosen))
	var walk func(g int)
	walk = func(g int) {
		seen[g] = true
		if chosen[g] == 0 {
			chosen[g] = p.pick(g, chosen)
		}
		for _, h := range sorted(p.disturb[g]) {
			if !seen[h] && rest[h] {
				walk(h)
			}
		}
	}
	for _, users := range []bool{true, false} {
		for g := range chosen {
			if rest[g] && !seen[g] && (p.user[g] != 0) == users {
				walk(g)
			}
		}
	}
	slices.SortFunc(cover, func(a, b int) int { return cmp.Or(cmp.Compare(p.total[b], p.total[a]), a-b) })
	for _, g := range cover {
		if chosen[g] == 0 {
			chosen[g] = p.pick(g, chosen)
		}
	}
	return chosen
}

// pick returns the colour with the least interference from groups that have theirs; the previous one is kept unless it
// is clearly worse.
func (p *painting) pick(g int, chosen []int64) int64 {
	cost := map[int64]float64{}
	for _, h := range sorted(p.disturb[g]) {
		cost[chosen[h]] += p.disturb[g][h]
	}
	best := p.colours[0]
	for _, c := range p.colours {
		if cost[c] < cost[best] {
			best = c
		}
	}
	if before := p.before[g]; before != 0 && cost[before] <= cost[best]*steady {
		return before
	}
	return best
}

// cover splits the groups into those that two colours suffice for and the others: a minimum odd cycle cover of the
// interference.
func (p *painting) cover() (rest []bool, cover []int) {
	const either, other, covered = 0, 1, 2
	problem := newProblem(len(p.total))
	for g := range p.total {
		problem.give[g] = covered
		problem.cost[g] = []int64{0, 0, int64(math.Round(p.total[g]*1e6)) + 1}
		if len(p.colours) == 2 && p.user[g] != 0 {
			problem.cost[g][either], problem.cost[g][other] = never, never
			if i := slices.Index(p.colours, p.user[g]); i >= 0 {
				problem.cost[g][i] = 0
			}
		}
		for h := range p.disturb[g] {
			if h < g {
				problem.pair(g, h, func(a, b int) bool { return a == covered || b == covered || a != b })
			}
		}
	}
	plan := problem.plan()
	if len(plan.given) > 0 {
		p.result.Notes = append(p.result.Notes, fmt.Sprintf(
			"%s: the links disturb each other too densely for the best assignment: %d groups of links were set aside first",
			p.name, len(plan.given)))
	}
	rest = make([]bool, len(p.total))
	for g, v := range problem.solve(plan) {
		if rest[g] = v != covered; !rest[g] {
			cover = append(cover, g)
		}
	}
	return rest, cover
}

func sorted(m map[int]float64) []int {
	out := make([]int, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
