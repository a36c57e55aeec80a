package events

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// Collected are the newest events of a peer, as it has sent them. The zero value has none.
type Collected struct {
	list  []Event // by Seq
	bytes int     // in memory
	last  uint64  // the number of the newest change that is known
}

// Answer is what a node answers when it is asked for its events.
type Answer struct {
	Events []Event `json:"events"`
	// Others is how many other events changed after the number that was asked for: they do not fit.
	Others int `json:"others,omitempty"`
}

// Request asks a node for the events that changed after a number, as many of the newest as fit into a number of bytes.
type Request struct {
	After uint64 `json:"after"`
	Bytes int    `json:"bytes"`
}

// Wants returns after which number to ask a peer, given the number of its last change; ok is false if nothing is new. A
// peer that has a lower number than before has begun anew.
func (c *Collected) Wants(reported uint64) (after uint64, ok bool) {
	switch {
	case reported == 0 || reported > maxSeq || reported == c.last:
		return 0, false
	case reported < c.last:
		return 0, true
	}
	return c.last, true
}

// Put adds what a peer has answered now, after it reported a number, and drops the oldest events beyond the limits.
// Events that no node can have sent are skipped. It returns by how many bytes of memory the list has grown.
func (c *Collected) Put(now time.Time, data []byte, reported uint64, l Limits) (grown int) {
	before := c.bytes
	var a Answer
	if json.Unmarshal(data, &a) != nil {
		a = Answer{}
	}
	c.list = slices.Clone(c.list) // readers have the list
	if reported < c.last {
		c.list = nil
	}
	c.last = reported // whatever it answered: it is asked again when it reports another number
	for _, e := range a.Events[max(0, len(a.Events)-l.Events):] {
		if e, ok := e.OfPeer(); ok && e.Changed() <= maxSeq {
			c.put(e.notAfter(now))
			c.last = max(c.last, e.Changed())
		}
	}
	c.Trim(l)
	return c.bytes - before
}

// Trim drops the oldest events beyond the limits, which are of their form in a file. It returns by how many bytes of
// memory the list has grown, usually a negative number.
func (c *Collected) Trim(l Limits) (grown int) {
	before, fit, room := c.bytes, 0, l.Bytes
	list := slices.SortedFunc(slices.Values(c.list), func(a, b Event) int { return cmp.Compare(b.Changed(), a.Changed()) })
	c.bytes = 0
	for ; fit < min(len(list), l.Events); fit++ {
		if room -= len(Encode(list[fit])); room < 0 {
			break
		}
		c.bytes += list[fit].memory()
	}
	c.list = slices.Clone(list[:fit]) // without room for more
	slices.SortFunc(c.list, func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return c.bytes - before
}

func (c *Collected) put(e Event) {
	for i := range c.list {
		if c.list[i].Seq == e.Seq {
			if c.list[i].Rev <= e.Rev {
				c.list[i] = e
			}
			return
		}
	}
	c.list = append(c.list, e)
}

// Drop drops all events, and returns how many bytes of memory they had. They are asked for again.
func (c *Collected) Drop() (bytes int) {
	bytes = c.bytes
	*c = Collected{}
	return bytes
}

// Events returns the events by Seq. The list must not be changed.
func (c *Collected) Events() []Event { return c.list }
