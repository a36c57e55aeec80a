package ops

import (
	"errors"
	"fmt"
	"slices"

	"edgespan/config"
	"edgespan/config/fleet/bisect"
	"edgespan/config/fleet/history"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/nodeconf"
)

// maxBisected bounds the revisions between the good one and the newest.
const maxBisected = 10000

// shownKeys is how many changed keys and nodes a candidate lists.
const shownKeys = 3

// Candidates returns the good revision and each later one, up to the bad one, that changes the config of the canary,
// with what its config is by the base files of today and whether nodes take it.
func (s *Snapshot) Candidates(q bisect.Request, reader history.Reader) ([]bisect.Candidate, error) {
	if s.State.Number-min(q.Good, s.State.Number) > maxBisected {
		return nil, refuseRequest("good", fmt.Sprintf("%d revisions are newer", s.State.Number-q.Good),
			fmt.Sprintf("must be among the last %d revisions", maxBisected))
	}
	records, err := s.State.Log(int(s.State.Number-q.Good) + 1)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 || records[len(records)-1].Number != q.Good {
		return nil, refuseRequest("good", fmt.Sprintf("invalid value %d", q.Good), "must be one that the history shows")
	}
	b := bisection{check: s.newCheck(), reader: reader, last: map[string]config.Object{}}
	slices.Reverse(records)
	names := namesAsOf(q.Nodes, records)
	for i, r := range records {
		if r.Number > q.Bad {
			break
		}
		if i > 0 {
			if touches, err := b.touches(names[i], r.Number); err != nil || !touches {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		if err := b.add(q, r, names[i]); err != nil {
			return nil, err
		}
		if len(b.out) > bisect.MaxCandidates {
			return nil, refuseRequest("good", fmt.Sprintf("more than %d revisions change the canary", bisect.MaxCandidates),
				"must be nearer to the bad revision")
		}
	}
	if len(b.out) < 2 {
		return nil, refuseRequest("good", fmt.Sprintf("no revision after %d, up to %d, changes the config of %s", q.Good,
			q.Bad, q.Canary), "must be a revision before such a change")
	}
	return b.out, nil
}

func refuseRequest(path, problem, expectation string) error {
	return RefuseRequest(config.Faults{{Path: []string{path}, Problem: problem, Expectation: expectation}})
}

// RefuseRequest returns the error of a request with faults, nil without any.
func RefuseRequest(faults config.Faults) error { return refuse(faultsOf("request", nil, faults)) }

// bisection collects the candidates.
type bisection struct {
	*check
	reader history.Reader
	last   map[string]config.Object // the config of each node, by its present name
	was    map[string]bool          // faults by metadata of the good revision: the node has it
	out    []bisect.Candidate
}

// touches reports whether a revision wrote a layer of nodes with these names.
func (b *bisection) touches(names []string, number uint64) (bool, error) {
	if b.Ended != nil {
		if err := b.Ended(); err != nil {
			return false, err
		}
	}
	changed, err := history.ChangedLayers(b.reader, number)
	return slices.ContainsFunc(changed, func(l history.Layer) bool {
		own := l.Kind == history.Node || l.Kind == history.Auto
		return l.Kind == history.Network || own && slices.Contains(names, l.Name)
	}), problemOf(err)
}

// namesAsOf returns the names that nodes had at each of some revisions, oldest first up to the newest.
func namesAsOf(nodes []string, records []history.RevisionRecord) [][]string {
	out := make([][]string, len(records))
	names := nodes
	for i := len(records) - 1; i >= 0; i-- {
		out[i] = names
		later := names
		for _, rename := range records[i].Renamed {
			for k, name := range later {
				if name != rename.To {
					continue
				}
				if &names[0] == &later[0] {
					names = slices.Clone(later)
				}
				names[k] = rename.From
			}
		}
	}
	return out
}

// add adds a revision if it changes the canary's config. The names are those of the nodes as of it.
func (b *bisection) add(q bisect.Request, r history.RevisionRecord, names []string) error {
	state, err := history.At(b.reader, r.Number)
	if err != nil {
		return problemOf(err)
	}
	c := bisect.Candidate{Revision: r.Number, Author: r.Author, Time: r.Time,
		Message: config.Truncate(r.Message, 100), As: names[slices.Index(q.Nodes, q.Canary)]}
	was, began := b.last[q.Canary]
	for i, name := range q.Nodes {
		m, err := b.merge(state, name, names[i])
		if err != nil {
			return err
		}
		before, known := b.last[name]
		if b.last[name] = m.full; name == q.Canary {
			b.evaluate(name, m, &c)
		} else if known && len(c.Others) < shownKeys && !config.Equal(before, m.full) {
			c.Others = append(c.Others, name)
		}
	}
	now := b.last[q.Canary]
	if began && config.Equal(was, now) && c.Invalid == b.out[len(b.out)-1].Invalid {
		return nil
	}
	if began {
		keys := leaves(config.FullDiff(was, now), nil)
		for _, path := range keys[:min(len(keys), shownKeys)] {
			c.Keys = append(c.Keys, config.FormatPath(path))
		}
		c.More = len(keys) - len(c.Keys)
	}
	b.out = append(b.out, c)
	return nil
}

// merged is the config of a node as of a revision.
type merged struct {
	full    config.Object
	learnt  bool   // its base files are those of its board
	failure string // what kind of fault it has, and which
	why     string
}

// merge computes the config of a node as of a revision.
func (b *bisection) merge(state history.State, node, as string) (merged, error) {
	kind, set, err := b.kind(b.versions(node))
	if err != nil {
		return merged{}, refuseRequest("nodes."+node, err.Error(), "must have base files that can be read")
	}
	versions, err := state.Layers(networkLayer, autoLayer(as), nodeLayer(as))
	if damaged := new(history.DamagedError); errors.As(err, &damaged) {
		return merged{failure: "damaged", why: damaged.Error()}, nil
	} else if err != nil {
		return merged{}, problemOf(err)
	}
	set[layers.Network], set[layers.Auto], set[layers.Node] = versions[0].Document, versions[1].Document,
		versions[2].Document
	full, clashes := set.Effective()
	if clashes != nil {
		return merged{full: full, failure: "clash", why: clashes[0].Error()}, nil
	}
	return merged{full: full, learnt: kind.Learnt}, nil
}

// evaluate says in c whether nodes take a config.
func (b *bisection) evaluate(node string, m merged, c *bisect.Candidate) {
	if m.failure != "" {
		c.MD5, c.Invalid = fmt.Sprintf("%s, revision %d", m.failure, c.Revision), m.why
		return
	}
	c.MD5 = config.MD5(m.full)
	present := nodeconf.DropAbsent(m.full)
	if _, faults := nodeconf.Check(present); len(faults) > 0 {
		c.Invalid = withoutValue(faults[0].Path, faults[0].Expectation)
	} else if rules := b.rulesFor(node, m.learnt); rules != nil {
		c.Invalid = b.newFault(rules.Validate(present).Faults)
	}
	if on, _ := config.Lookup(m.full, []string{"sysParams", "managedConfig"}); on != true {
		c.Unfit = "sysParams.managedConfig is not true: nothing is pushed"
	}
}

// newFault returns a fault that the canary's config did not have with the good revision; "" for none.
func (b *bisection) newFault(faults []metadata.Violation) string {
	if b.was == nil {
		b.was = map[string]bool{}
	}
	for _, f := range faults {
		text := withoutValue(f.Path, f.Expectation)
		if len(b.out) == 0 {
			b.was[text] = true
		} else if !b.was[text] {
			return text
		}
	}
	return ""
}

// withoutValue returns a fault without its value, which may be secret: every viewer can read a search.
func withoutValue(path []string, expectation string) string {
	return config.FormatPath(path) + ": " + expectation
}

// rulesFor returns the metadata that applies to a node.
func (b *bisection) rulesFor(node string, learnt bool) *metadata.Metadata {
	switch m := b.Rules[b.versions(node).Board]; {
	case learnt && b.Base != nil && m != nil:
		return m
	case b.Base != nil:
		return b.Base
	}
	return b.metadata
}
