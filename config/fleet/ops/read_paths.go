package ops

import (
	"errors"
	"slices"
	"sort"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/layers/override"
)

// nodesAtOnce is the number of nodes whose layers are in memory at once.
const nodesAtOnce = 500

// Paths returns the parts of many nodes' configs at paths, {node: {…}}. Nodes that have never reported get the latest
// base.
func (s *Snapshot) Paths(q PathsQuery) (DocumentAnswer, error) {
	if len(q.Paths) == 0 {
		return DocumentAnswer{},
			refuse(override.WriteFaults{{Rule: override.RuleRequest, Problem: "the question names no path",
				Expectation: "must be one or more"}})
	}
	names := slices.Compact(slices.Sorted(slices.Values(q.Nodes)))
	if len(names) == 0 {
		names = s.nodeNames()
	}
	if err := s.checkNodesExist(names...); err != nil {
		return DocumentAnswer{}, err
	}
	names = names[sort.Search(len(names), func(i int) bool { return names[i] > q.After }):]
	all := len(names)
	if q.Limit > 0 {
		names = names[:min(all, q.Limit)]
	}
	p := pathsAnswer{w: s, q: q, out: config.Object{}, cost: meter{ended: s.Ended}}
	for some := range slices.Chunk(names, nodesAtOnce) {
		if err := p.addNames(some); err != nil {
			return DocumentAnswer{}, err
		}
	}
	next := ""
	switch {
	case p.faults != nil:
		return DocumentAnswer{}, refuse(p.faults)
	case p.full != "":
		next = p.full
	case len(names) < all:
		next = names[len(names)-1]
	}
	d := s.maskByNode(p.out, p.newest, q.Reveal)
	d.Next = next
	return d, nil
}

// pathsAnswer is an answer under construction.
type pathsAnswer struct {
	w      *Snapshot
	q      PathsQuery
	out    config.Object
	newest uint64
	faults override.WriteFaults
	cost   meter
	last   string // the previous node
	full   string // the last node that fitted, if any
}

// addNames adds the parts of some nodes. A node that would make the answer too large ends the page, unless it is the
// first of the page.
func (p *pathsAnswer) addNames(names []string) error {
	if p.full != "" {
		return nil
	}
	j := p.w.newCheck()
	j.cost = p.cost
	defer func() { p.cost = j.cost }()
	desired := []history.Layer{networkLayer}
	for _, name := range names {
		desired = append(desired, autoLayer(name), nodeLayer(name))
	}
	if err := j.layersOrDamaged(desired...); err != nil { // a damaged layer is a fault of its node
		return err
	}
	for _, name := range names {
		err := p.add(j, name)
		if errors.As(err, new(*TooLargeError)) && p.q.Limit > 0 && p.last != "" {
			p.full = p.last
			return nil
		}
		if err != nil {
			return err
		}
		p.last = name
	}
	return nil
}

// add adds the parts of one node.
func (p *pathsAnswer) add(j *check, name string) error {
	chosen, revision, err := j.effective(name, j.versions(name), p.q.Paths)
	p.newest = max(p.newest, revision)
	var no *Refused
	switch {
	case errors.As(err, &no):
		p.faults = append(p.faults, no.Faults...)
	case err != nil:
		return err
	case len(chosen) > 0:
		if err := j.cost.answer(chosen); err != nil {
			return err
		}
		p.out[name] = chosen
	}
	return nil
}
