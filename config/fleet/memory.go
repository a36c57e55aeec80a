package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
)

// Reason is why a config is not on a node that got it.
type Reason string

const (
	// Invalid is a config that the node rejected. It is not pushed again until something changes.
	Invalid Reason = "rejected"
	// Unhealthy is one that made bad what was good before. It is not pushed again either.
	Unhealthy Reason = "unhealthy"
	// Unconfirmed is one that nobody confirmed in time, all else being well. It is pushed
	// again after the interval.
	Unconfirmed Reason = "unconfirmed"
)

// Memory is what of a Node survives the controller. It is plain data with a JSON form.
type Memory struct {
	Push      Attempt   `json:"push,omitzero"`
	Failures  []Failure `json:"failures,omitempty"` // one for each digest, the oldest first
	Floor     uint64    `json:"floor,omitempty"`    // answers to attempts up to this one are void
	Adopted   bool      `json:"adopted,omitempty"`  // the controller's configs may remove objects
	Releasing string    `json:"releasing,omitempty"`
	// Has is what may be on the node of the PeerConfigurations that were pushed to it, by ID. It is
	// stored before a push, and what is not wanted any more goes only with the node's word for it.
	Has []peer.Gone `json:"has,omitempty"`

	// other is what a newer version keeps beside that: it is written as it was read.
	other config.Unknown
}

// Attempt is the last push of a whole config.
type Attempt struct {
	Number     uint64          `json:"number"` // counts the attempts of one node, and never repeats
	Generation Generation      `json:"generation"`
	Digest     Digest          `json:"digest"`
	For        layers.Versions `json:"for"` // that it was computed for
	At         time.Time       `json:"at"`  // of the push, or of its undoing: the interval runs from here
	Undone     bool            `json:"undone,omitempty"`
	On         string          `json:"on,omitempty"`    // the stream that it was for
	Again      bool            `json:"again,omitempty"` // in place of one that was lost: inside of its interval
}

// Failure is a config that a node rejected, or undid as unhealthy.
type Failure struct {
	Digest  Digest          `json:"digest"`
	Attempt uint64          `json:"attempt"`
	Reason  Reason          `json:"reason"`
	Why     string          `json:"why"`
	At      time.Time       `json:"at"`
	For     layers.Versions `json:"for"` // of the node then; with others it may well take it
}

// maxFailures are remembered of one node; the oldest goes first.
const (
	maxFailures   = 32
	longestWhy    = 4096 // bytes of a node's own words
	longestDigest = 64   // bytes: more than any digest has
)

// ParseMemory reads the JSON form. Fields that a newer version has added to it are kept.
func ParseMemory(text []byte) (Memory, error) {
	var m Memory
	if err := json.Unmarshal(text, &m); err != nil {
		return Memory{}, fmt.Errorf("parse memory of a node: %w", err)
	}
	// a node's own word, kept by an earlier release
	m.forget(func(f Failure) bool { return len(f.Digest.Config) > longestDigest })
	return m, nil
}

// written is a Memory without its own JSON form.
type written Memory

// UnmarshalJSON keeps what it does not know.
func (m *Memory) UnmarshalJSON(text []byte) (err error) {
	m.other, err = config.ReadRecord(text, (*written)(m))
	return err
}

// MarshalJSON writes what was kept too.
func (m Memory) MarshalJSON() ([]byte, error) { return config.WriteRecord(written(m), m.other) }

// Anew is the memory of a node that was forgotten and joins again: it counts on, and what is on it
// must be adopted again, and is to be absent where nobody wants it any more. Of a form that can't be
// read (whole is false) each field counts that can be; without the number of its pushes the count
// goes on at the time, which no count of pushes has reached.
func Anew(old []byte, now time.Time) (m Memory, whole bool) {
	m, err := ParseMemory(old)
	if whole = err == nil; !whole {
		m = salvaged(old, now)
	}
	return Memory{Push: Attempt{Number: m.Push.Number}, Floor: m.Push.Number, Has: m.Has}, whole
}

func salvaged(old []byte, now time.Time) (m Memory) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(old, &fields) == nil {
		var push struct{ Number uint64 }
		if json.Unmarshal(fields["push"], &push) == nil {
			m.Push.Number = push.Number
		}
		var has []peer.Gone
		if json.Unmarshal(fields["has"], &has) == nil {
			m.Has = has
		}
	}
	if m.Push.Number == 0 {
		m.Push.Number = uint64(max(now.Unix(), 0))
	}
	return m
}

// clone shares nothing with m that either changes.
func (m Memory) clone() Memory {
	m.Failures, m.Has = slices.Clone(m.Failures), slices.Clone(m.Has)
	return m
}

func (m *Memory) failure(d Digest) *Failure {
	for i := range m.Failures {
		if m.Failures[i].Digest == d {
			return &m.Failures[i]
		}
	}
	return nil
}

func (m *Memory) fail(f Failure) {
	f.Why = shortWhy(f.Why)
	m.forget(func(g Failure) bool { return g.Digest == f.Digest })
	m.Failures = append(m.Failures, f)
	m.Failures = slices.Delete(m.Failures, 0, max(len(m.Failures)-maxFailures, 0))
}

// shortWhy bounds what a node says of a push.
func shortWhy(why string) string { return config.Cut(why, longestWhy) }

// forget drops failures, and says whether there were any.
func (m *Memory) forget(which func(Failure) bool) bool {
	before := len(m.Failures)
	m.Failures = slices.DeleteFunc(m.Failures, which)
	if len(m.Failures) == 0 {
		m.Failures = nil
	}
	return len(m.Failures) < before
}

// Left is what may be on the node and does not belong to a PeerConfiguration, nil for none: it
// is to be absent.
func (m Memory) Left(with *peer.Configuration) []peer.Gone {
	if len(m.Has) == 0 {
		return nil
	}
	wants := desiredParts(with)
	return slices.DeleteFunc(slices.Clone(m.Has), func(g peer.Gone) bool { return wants[g.ID] })
}

// holds notes what a push brings to the node.
func (m *Memory) holds(with *peer.Configuration) {
	if with == nil {
		return
	}
	var parts []peer.Gone
	for _, p := range with.Parameters {
		if p.Target == stateloop.ToBePresent {
			parts = append(parts, peer.Gone{ID: p.ID, Kind: p.Kind, Needs: p.Dependencies})
		}
	}
	m.Has = union(m.Has, parts)
}

// parted drops what the node says is gone, and says whether there was any: what it reports
// Absent, and where it has settled what it reports no more.
func (m *Memory) parted(with *peer.Configuration, parts map[string]bool, settled bool) bool {
	before, wants := len(m.Has), desiredParts(with)
	m.Has = slices.DeleteFunc(slices.Clone(m.Has), func(g peer.Gone) bool {
		absent, reported := parts[g.ID]
		return !wants[g.ID] && (absent || settled && !reported)
	})
	if len(m.Has) == 0 {
		m.Has = nil
	}
	return len(m.Has) < before
}

// desiredParts are the parameters that are to be present.
func desiredParts(with *peer.Configuration) map[string]bool {
	out := map[string]bool{}
	if with != nil {
		for _, p := range with.Parameters {
			out[p.ID] = p.Target == stateloop.ToBePresent
		}
	}
	return out
}

// union is two lists by ID; of one ID that of b counts.
func union(a, b []peer.Gone) []peer.Gone {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := map[string]peer.Gone{}
	for _, g := range slices.Concat(a, b) {
		out[g.ID] = g
	}
	return slices.SortedFunc(maps.Values(out), func(a, b peer.Gone) int { return strings.Compare(a.ID, b.ID) })
}

// merge takes in what another replica wrote at last, while this one owned the node already.
func (m *Memory) merge(other Memory) {
	// Of two attempts of one number the stored one was made: what could not be stored was not
	// sent, and must not look as if it had been on this stream.
	if other.Push.Number >= m.Push.Number {
		m.Push = other.Push
	}
	m.Floor = max(m.Floor, other.Floor)
	m.Adopted = m.Adopted || other.Adopted
	m.Releasing = cmp.Or(m.Releasing, other.Releasing)
	m.Has = union(other.Has, m.Has)
	if other.other != nil {
		m.other = other.other
	}
	for _, f := range other.Failures {
		if m.failure(f.Digest) == nil && f.Attempt > m.Floor {
			m.fail(f)
		}
	}
	slices.SortStableFunc(m.Failures, func(a, b Failure) int { return a.At.Compare(b.At) })
}
