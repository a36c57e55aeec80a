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

// Reason says why a config that was pushed to a node is not on it.
type Reason string

const (
	// Invalid: the node rejected the config. It is not pushed again until something changes.
	Invalid Reason = "rejected"
	// Unhealthy: the config broke something that was good before. It is not pushed again either.
	Unhealthy Reason = "unhealthy"
	// Unconfirmed: the config was not confirmed in time and is otherwise fine. It is pushed again after the interval,
	// which doubles with each such undo in a row: the config may be what cuts the node off, or nothing of it.
	Unconfirmed Reason = "unconfirmed"
)

// Memory is the part of a Node that survives the controller. It is plain data with a JSON form.
type Memory struct {
	Push      Attempt         `json:"push,omitzero"`
	Failures  []ConfigFailure `json:"failures,omitempty"` // one per digest, the oldest first
	Floor     uint64          `json:"floor,omitempty"`    // answers to attempts up to this one are ignored
	Adopted   bool            `json:"adopted,omitempty"`  // the controller's configs may remove objects
	Releasing string          `json:"releasing,omitempty"`
	// Has lists the parts of pushed PeerConfigurations that may be on the node, by ID. It is stored before a push; a part
	// that is no longer desired is dropped only when the node reports it gone.
	Has []peer.Leftover `json:"has,omitempty"`

	// other holds the fields that a newer version added: they are written as they were read.
	other config.Unknown
}

// Attempt is the last push of a whole config.
type Attempt struct {
	Number     uint64          `json:"number"` // counts the attempts of one node, never repeats
	Generation Generation      `json:"generation"`
	Digest     Digest          `json:"digest"`
	For        layers.Versions `json:"for"` // the versions that it was computed for
	At         time.Time       `json:"at"`  // of the push, or of its undo: the interval starts here
	Undone     bool            `json:"undone,omitempty"`
	Undos      int             `json:"undos,omitempty"` // unconfirmed attempts of this digest in a row, up to this one
	On         string          `json:"on,omitempty"`    // the stream that it was sent on
	Again      bool            `json:"again,omitempty"` // a resend of a lost push, within its interval
}

// ConfigFailure is a config that a node rejected, or undid as unhealthy.
type ConfigFailure struct {
	Digest  Digest          `json:"digest"`
	Attempt uint64          `json:"attempt"`
	Reason  Reason          `json:"reason"`
	Why     string          `json:"why"`
	At      time.Time       `json:"at"`
	For     layers.Versions `json:"for"` // the node's versions then; with others it may accept the config
}

// Bounds on the failures remembered for one node; the oldest is dropped first.
const (
	maxFailures   = 32
	longestWhy    = 4096 // bytes of a node's own message
	longestDigest = 64   // bytes: more than any real digest
)

// ParseMemory parses the JSON form. It keeps fields that a newer version added.
func ParseMemory(text []byte) (Memory, error) {
	var m Memory
	if err := json.Unmarshal(text, &m); err != nil {
		return Memory{}, fmt.Errorf("parse memory of a node: %w", err)
	}
	// an earlier release stored digests of any length from the node
	m.forget(func(f ConfigFailure) bool { return len(f.Digest.Config) > longestDigest })
	return m, nil
}

// written is Memory without its methods for JSON.
type written Memory

// UnmarshalJSON keeps unknown fields.
func (m *Memory) UnmarshalJSON(text []byte) (err error) {
	m.other, err = config.ReadRecord(text, (*written)(m))
	return err
}

// MarshalJSON writes the unknown fields too.
func (m Memory) MarshalJSON() ([]byte, error) { return config.WriteRecord(written(m), m.other) }

// RejoinMemory returns the memory of a node that was removed and joins again: its attempts count on, it must be
// adopted again, and what may be on it becomes absent unless it is desired. If the old form can't be read (whole is
// false), each readable field is kept; if the number of attempts is lost, it continues from the Unix time, which no
// count of pushes reaches.
func RejoinMemory(old []byte, now time.Time) (m Memory, whole bool) {
	m, err := ParseMemory(old)
	if whole = err == nil; !whole {
		m = salvageMemory(old, now)
	}
	return Memory{Push: Attempt{Number: m.Push.Number}, Floor: m.Push.Number, Has: m.Has}, whole
}

func salvageMemory(old []byte, now time.Time) (m Memory) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(old, &fields) == nil {
		var push struct{ Number uint64 }
		if json.Unmarshal(fields["push"], &push) == nil {
			m.Push.Number = push.Number
		}
		var has []peer.Leftover
		if json.Unmarshal(fields["has"], &has) == nil {
			m.Has = has
		}
	}
	if m.Push.Number == 0 {
		m.Push.Number = uint64(max(now.Unix(), 0))
	}
	return m
}

// clone copies what m or the copy may change.
func (m Memory) clone() Memory {
	m.Failures, m.Has = slices.Clone(m.Failures), slices.Clone(m.Has)
	return m
}

func (m *Memory) findFailure(d Digest) *ConfigFailure {
	for i := range m.Failures {
		if m.Failures[i].Digest == d {
			return &m.Failures[i]
		}
	}
	return nil
}

func (m *Memory) recordFailure(f ConfigFailure) {
	f.Why = truncateReason(f.Why)
	m.forget(func(g ConfigFailure) bool { return g.Digest == f.Digest })
	m.Failures = append(m.Failures, f)
	m.Failures = slices.Delete(m.Failures, 0, max(len(m.Failures)-maxFailures, 0))
}

// truncateReason truncates a node's message about a push.
func truncateReason(why string) string { return config.Truncate(why, longestWhy) }

// forget drops the failures that match, and reports whether there were any.
func (m *Memory) forget(which func(ConfigFailure) bool) bool {
	before := len(m.Failures)
	m.Failures = slices.DeleteFunc(m.Failures, which)
	if len(m.Failures) == 0 {
		m.Failures = nil
	}
	return len(m.Failures) < before
}

// Leftovers lists what may be on the node and is not part of the PeerConfiguration (nil for none): it must become
// absent.
func (m Memory) Leftovers(with *peer.Configuration) []peer.Leftover {
	if len(m.Has) == 0 {
		return nil
	}
	wants := desiredParts(with)
	return slices.DeleteFunc(slices.Clone(m.Has), func(g peer.Leftover) bool { return wants[g.ID] })
}

// recordPush records what a push brings to the node.
func (m *Memory) recordPush(with *peer.Configuration) {
	if with == nil {
		return
	}
	var parts []peer.Leftover
	for _, p := range with.Parameters {
		if p.Target == stateloop.ToBePresent {
			parts = append(parts, peer.Leftover{ID: p.ID, Kind: p.Kind, Needs: p.Dependencies})
		}
	}
	m.Has = union(m.Has, parts)
}

// dropGone drops what is gone from the node, and reports whether anything was dropped: parameters that the node reports
// Absent and, once it has settled, those that it no longer reports.
func (m *Memory) dropGone(with *peer.Configuration, parts map[string]bool, settled bool) bool {
	before, wants := len(m.Has), desiredParts(with)
	m.Has = slices.DeleteFunc(slices.Clone(m.Has), func(g peer.Leftover) bool {
		absent, reported := parts[g.ID]
		return !wants[g.ID] && (absent || settled && !reported)
	})
	if len(m.Has) == 0 {
		m.Has = nil
	}
	return len(m.Has) < before
}

// desiredParts is the set of parameters whose target is present.
func desiredParts(with *peer.Configuration) map[string]bool {
	out := map[string]bool{}
	if with != nil {
		for _, p := range with.Parameters {
			out[p.ID] = p.Target == stateloop.ToBePresent
		}
	}
	return out
}

// union merges two lists by ID; b wins.
func union(a, b []peer.Leftover) []peer.Leftover {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := map[string]peer.Leftover{}
	for _, g := range slices.Concat(a, b) {
		out[g.ID] = g
	}
	return slices.SortedFunc(maps.Values(out), func(a, b peer.Leftover) int { return strings.Compare(a.ID, b.ID) })
}

// merge merges what another replica wrote last while this one already owned the node.
func (m *Memory) merge(other Memory) {
	// Of two attempts with the same number, the stored one was made: one that could not be stored was never sent, and must
	// not look as if it had been sent on this stream.
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
		if m.findFailure(f.Digest) == nil && f.Attempt > m.Floor {
			m.recordFailure(f)
		}
	}
	slices.SortStableFunc(m.Failures, func(a, b ConfigFailure) int { return a.At.Compare(b.At) })
}
