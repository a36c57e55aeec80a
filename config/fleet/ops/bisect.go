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
	for i, r := range records {
		if r.Number > q.Bad {
			break
		}
		if i > 0 {
			if touches, err := b.touches(q.Nodes, records[i:]); err != nil || !touches {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		if err := b.add(q, r, records[i+1:]); err != nil {
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

// touches reports whether the first of some revisions, oldest first up to the newest, wrote a layer of the nodes.
func (b *bisection) touches(nodes []string, records []history.RevisionRecord) (bool, error) {
	if b.Ended != nil {
		if err := b.Ended(); err != nil {
			return false, err
		}
	}
	changed, err := history.ChangedLayers(b.reader, records[0].Number)
	return slices.ContainsFunc(changed, func(l history.Layer) bool {
		own := l.Kind == history.Node || l.Kind == history.Auto
		return l.Kind == history.Network || own && slices.ContainsFunc(nodes, func(name string) bool {
			return nameAsOf(name, records[1:]) == l.Name
		})
	}), problemOf(err)
}

// nameAsOf returns the name that a node had before some revisions, oldest first.
func nameAsOf(name string, later []history.RevisionRecord) string {
	for _, r := range slices.Backward(later) {
		for _, rename := range r.Renamed {
			if rename.To == name {
				name = rename.From
				break
			}
		}
	}
	return name
}

// add adds a revision if it changes the canary's config.
func (b *bisection) add(q bisect.Request, r history.RevisionRecord, later []history.RevisionRecord) error {
	state, err := history.At(b.reader, r.Number)
	if err != nil {
		return problemOf(err)
	}
	c := bisect.Candidate{Revision: r.Number, Author: r.Author, Time: r.Time,
		Message: config.Truncate(r.Message, 100), As: nameAsOf(q.Canary, later)}
	was, began := b.last[q.Canary]
	for _, name := range q.Nodes {
		own := c
		own.Invalid = ""
		now, err := b.effective(state, name, nameAsOf(name, later), &own)
		if err != nil {
			return err
		}
		before, known := b.last[name]
		if b.last[name] = now; name == q.Canary {
			c.MD5, c.Invalid, c.Unfit = own.MD5, own.Invalid, own.Unfit
		} else if known && !config.Equal(before, now) && len(c.Others) < shownKeys {
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

// effective computes the config of a node as of a revision, and says in c whether nodes take it.
func (b *bisection) effective(state history.State, node, as string, c *bisect.Candidate) (config.Object, error) {
	kind, set, err := b.kind(b.versions(node))
	if err != nil {
		return nil, refuseRequest("nodes."+node, err.Error(), "must have base files that can be read")
	}
	versions, err := state.Layers(networkLayer, autoLayer(as), nodeLayer(as))
	if damaged := new(history.DamagedError); errors.As(err, &damaged) {
		c.MD5, c.Invalid = fmt.Sprintf("damaged, revision %d", c.Revision), damaged.Error()
		return nil, nil
	} else if err != nil {
		return nil, problemOf(err)
	}
	set[layers.Network], set[layers.Auto], set[layers.Node] = versions[0].Document, versions[1].Document,
		versions[2].Document
	full, clashes := set.Effective()
	if clashes != nil {
		c.MD5, c.Invalid = fmt.Sprintf("clash, revision %d", c.Revision), clashes[0].Error()
		return full, nil
	}
	c.MD5 = config.MD5(full)
	present := nodeconf.DropAbsent(full)
	if _, faults := nodeconf.Check(present); len(faults) > 0 {
		c.Invalid = withoutValue(faults[0].Path, faults[0].Expectation)
	} else if m := b.rulesFor(node, kind.Learnt); m != nil {
		c.Invalid = b.newFault(node, m.Validate(present).Faults)
	}
	if on, _ := config.Lookup(full, []string{"sysParams", "managedConfig"}); on != true {
		c.Unfit = "sysParams.managedConfig is not true: nothing is pushed"
	}
	return full, nil
}

// newFault returns a fault that a node's config did not have with the good revision; "" for none.
func (b *bisection) newFault(node string, faults []metadata.Violation) string {
	if b.was == nil {
		b.was = map[string]bool{}
	}
	for _, f := range faults {
		text := withoutValue(f.Path, f.Expectation)
		if len(b.out) == 0 {
			b.was[node+" "+text] = true
		} else if !b.was[node+" "+text] {
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
