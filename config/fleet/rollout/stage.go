package rollout

import (
	"slices"

	"edgespan/config/fleet/topology"
)

// nextStagedBatch returns the next batch of nodes that the topology can't place: the canary, then of each group as many
// as its stage allows. left are the nodes that stay out because they are offline.
func (r *Rollout) nextStagedBatch(cannot []Unreachable) (batch []string, left []Unreachable) {
	var waiting []string
	for _, u := range cannot {
		if up, said := r.online[u.Node]; u.Reason == reasonOffline || said && !up {
			left = append(left, Unreachable{u.Node, reasonOffline})
			continue
		}
		waiting = append(waiting, u.Node)
	}
	slices.Sort(waiting)
	s := stages{percent: r.o.Stages, limit: r.o.Limit, total: map[string]int{}, tried: map[string]int{},
		waiting: map[string][]string{}}
	if r.canary {
		s.first = r.o.First
	}
	for _, name := range waiting {
		s.waiting[r.groups[name]] = append(s.waiting[r.groups[name]], name)
	}
	for name, n := range r.nodes {
		s.total[r.groups[name]]++
		if !n.waiting {
			s.tried[r.groups[name]]++
		}
	}
	return s.next(), left
}

// stages holds groups of nodes in progress.
type stages struct {
	percent      []int
	first, limit int                 // of the first batch, if this is it, and of any
	total, tried map[string]int      // by group
	waiting      map[string][]string // by group, in order
}

// next returns the batch that brings each group to the first stage that some group has not reached, or a part of it if
// there is a limit; groups then take turns. Offline nodes count for the percentages. At 100 % all waiting nodes go,
// because tried ones no longer wait.
func (s stages) next() []string {
	limit := tighterLimit(s.first, s.limit)
	for _, percent := range append(slices.Clone(s.percent), 100) {
		take := map[string]int{}
		sum := 0
		for group, names := range s.waiting {
			target := (s.total[group]*percent + 99) / 100
			take[group] = min(max(target-s.tried[group], 0), len(names))
			sum += take[group]
		}
		if sum > 0 {
			return s.pick(take, limit)
		}
	}
	return nil
}

// pick takes a number of nodes from each group in turns, at most limit.
func (s stages) pick(take map[string]int, limit int) []string {
	var out []string
	names := sortedKeys(s.waiting)
	for round := 0; ; round++ {
		before := len(out)
		for _, group := range names {
			if round < take[group] && (limit == 0 || len(out) < limit) {
				out = append(out, s.waiting[group][round])
			}
		}
		if len(out) == before {
			slices.Sort(out)
			return out
		}
	}
}

// emptyTopology returns the topology of a fleet without one.
func emptyTopology(t *topology.Topology) *topology.Topology {
	if t == nil {
		return &topology.Topology{}
	}
	return t
}
