package ops

import (
	"fmt"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/layers"
	"edgespan/config/layers/override"
)

// Limits of the cost of one query. They allow reading a fleet of 3,000 nodes with 5 KB of overrides each at once.
const (
	MaxAnswer = 16 << 20  // bytes of the documents in an answer, as canonical text
	maxLooked = 4_000_000 // keys and elements that are merged, walked and selected for it
)

// TooLargeError reports that an answer would exceed the cost limit of one query.
type TooLargeError struct{ what string }

func (e *TooLargeError) Error() string { return "the answer: " + e.what }

// meter counts the cost of a query before it arises.
type meter struct {
	ended  func() error // returns an error if the caller has gone; nil: the query runs to its end
	looked int
	bytes  int
}

// count adds keys and elements that are about to be visited.
func (m *meter) count(n int) error {
	if m.looked += n; m.looked > maxLooked {
		return &TooLargeError{"takes too long to be made: ask for fewer nodes or paths at once"}
	}
	if m.ended == nil {
		return nil
	}
	return m.ended()
}

// answer adds a document that becomes part of the answer.
func (m *meter) answer(v any) error {
	bytes, values := estimateSize(v)
	if m.bytes += bytes; m.bytes > MaxAnswer {
		return &TooLargeError{fmt.Sprintf("has more than %d MiB: ask for less at once, or for pages (limit)", MaxAnswer>>20)}
	}
	return m.count(values)
}

// maxExplained limits the values of all layers in one explanation: each needs a search of the history for its author.
const maxExplained = 5000

// checkExplainable refuses a larger explanation.
func (ck *check) checkExplainable(node string, set layers.Set, path []string) error {
	for place, l := range map[layers.Layer]history.Layer{layers.Auto: autoLayer(node), layers.Network: networkLayer,
		layers.Node: nodeLayer(node)} {
		v, err := ck.layer(l)
		if err != nil {
			return err
		}
		set[place] = v.Document
	}
	all := 0
	for _, o := range set {
		v, _ := config.Lookup(o, path)
		_, values := estimateSize(v)
		all += values
	}
	if all > maxExplained {
		return &TooLargeError{fmt.Sprintf("explains some %d values: at most %d are explained at once: name a path", all,
			maxExplained)}
	}
	return nil
}

// estimateSize estimates the bytes of a value as text, and counts its keys and elements.
func estimateSize(v any) (bytes, values int) {
	add := func(b, n int) { bytes, values = bytes+b, values+n }
	switch v := v.(type) {
	case string:
		return len(v) + 2, 1
	case config.Object:
		for key, below := range v {
			b, n := estimateSize(below)
			add(len(key)+4+b, n)
		}
	case []any:
		for _, below := range v {
			b, n := estimateSize(below)
			add(1+b, n)
		}
	default:
		return 8, 1
	}
	return bytes + 2, values + 1
}

const (
	maxUnknownNodes = 100  // named in one refusal
	maxTop          = 1000 // top-level keys of one layer; the largest known has 40
)

// checkKeyCount returns faults for overrides with more top-level keys than any config has: each is a section to
// validate.
func checkKeyCount(c override.Change) override.WriteFaults {
	var faults override.WriteFaults
	check := func(node string, o config.Object) {
		if len(o) > maxTop {
			faults = append(faults, override.WriteFault{
				Nodes: []string{node}, Rule: override.RuleRequest, Problem: fmt.Sprintf("too many keys at its top (%d)", len(o)),
				Expectation: fmt.Sprintf("must be at most %d", maxTop),
			})
		}
	}
	if c.Layer == layers.Network {
		check("", c.Overrides)
		return faults
	}
	for _, name := range config.Keys(c.Overrides) {
		o, _ := c.Overrides[name].(config.Object)
		check(name, o)
	}
	return faults
}
