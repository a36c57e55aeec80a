package bisect

import (
	"fmt"
	"slices"
	"strings"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/stateloop"
)

// Verdict is the result of a test.
type Verdict string

// The verdicts.
const (
	Good   Verdict = "good"
	Bad    Verdict = "bad"
	Unsure Verdict = "can't say"
)

// The checks that are no name of a health item or parameter.
const (
	Healthy = "healthy" // nothing is bad that is good with the good revision
	Applied = "applied" // the node takes the config and keeps it
)

// isItem reports whether a check names a health item or a parameter.
func isItem(check string) bool { return check != Healthy && check != Applied }

// Snapshot is the health of a node with one config.
type Snapshot struct {
	MD5  string   `json:"md5"`
	Bad  []string `json:"bad,omitempty"`  // items and parameters that are bad, sorted; at most maxBad
	More bool     `json:"more,omitempty"` // others, which follow by name, are bad too
	Item Verdict  `json:"item,omitempty"` // of the item that the check names; "" if it is not reported
}

// maxBad bounds the bad items of a snapshot.
const maxBad = 100

// SnapshotOf returns what a report says about a check.
func SnapshotOf(r *nodeproto.Report, check string) Snapshot {
	s := Snapshot{MD5: r.MD5}
	note := func(name string, good bool) {
		if !good {
			s.Bad = append(s.Bad, name)
		}
		if name == check && s.Item != Bad {
			if s.Item = Good; !good {
				s.Item = Bad
			}
		}
	}
	for _, h := range r.Health {
		note(h.Name, h.Good)
	}
	for _, p := range r.Parameters {
		note(p.ID, stateloop.State(p.State).Class() == stateloop.Final)
	}
	slices.Sort(s.Bad)
	s.Bad = slices.Compact(s.Bad)
	s.More = len(s.Bad) > maxBad
	s.Bad = slices.Clip(s.Bad[:min(len(s.Bad), maxBad)])
	return s
}

// evaluate returns the verdict of a check on a snapshot, given the one of the good revision; nil: this is the one.
func evaluate(check string, good *Snapshot, s Snapshot) (Verdict, string) {
	switch {
	case isItem(check) && s.Item == "":
		return Unsure, check + " is not reported"
	case isItem(check):
		return s.Item, fmt.Sprintf("%s is %s", check, s.Item)
	case check == Applied:
		return Good, "the node has it and has settled"
	case good == nil && len(s.Bad) == 0:
		return Good, "nothing is bad"
	case good == nil:
		return Good, "bad with it, and not counted: " + list(s.Bad)
	}
	var bad []string
	unknown := good.More && s.More
	for _, name := range s.Bad {
		switch _, found := slices.BinarySearch(good.Bad, name); {
		case found:
		case good.More && name > good.Bad[len(good.Bad)-1]:
			unknown = true
		default:
			bad = append(bad, name)
		}
	}
	switch {
	case len(bad) > 0:
		return Bad, "good before and bad now: " + list(bad)
	case s.More && !good.More:
		return Bad, "more is bad than with the good revision"
	case unknown:
		return Unsure, fmt.Sprintf("more than %d items are bad: check one of them by its name", maxBad)
	}
	return Good, "nothing is worse"
}

// list lists the first few of many names.
func list(names []string) string {
	const shown = 3
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}
