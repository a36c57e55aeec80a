package nodeproto

import (
	"slices"

	"edgespan/config"
)

// Bounds on a node's messages, which it may send at any rate and with any content.
const (
	MaxText = 512 // bytes of free text
	MaxName = 256 // bytes of a name
	// parameters, health items and actions, each; 999 networks with 4,000 apps have 6,000
	MaxListed = 16 << 10
)

// maxDigest is longer than any digest, authority of a generation or UUID.
const maxDigest = 64

// digestWord bounds a digest or an authority from a node. A longer one is truncated, and equals no real one.
func digestWord(s string) string { return config.Truncate(s, maxDigest) }

func boundGeneration(g Generation) Generation {
	g.Authority = digestWord(g.Authority)
	return g
}

// Bounded returns the Hello with truncated texts.
func (h Hello) Bounded() Hello {
	h.Software, h.Firmware, h.Board = config.Truncate(h.Software, MaxName), config.Truncate(h.Firmware, MaxName),
		config.Truncate(h.Board, MaxName)
	return h
}

// words returns the report with those texts truncated that are stored in a node's memory, progress and row.
func (r Report) words() Report {
	r.Software, r.Firmware, r.Board = config.Truncate(r.Software, MaxName), config.Truncate(r.Firmware, MaxName),
		config.Truncate(r.Board, MaxName)
	r.Source = config.Truncate(r.Source, MaxName)
	r.MD5, r.Peer, r.Generation, r.Restores = digestWord(r.MD5), digestWord(r.Peer), boundGeneration(r.Generation),
		boundGeneration(r.Restores)
	if r.Held != nil {
		held := *r.Held
		held.By = config.Truncate(held.By, MaxName)
		r.Held = &held
	}
	if r.Pending != nil {
		p := *r.Pending
		p.Generation = boundGeneration(p.Generation)
		p.Worse = boundedList(p.Worse)
		r.Pending = &p
	}
	return r
}

// Bounded returns the answer to a probe with truncated texts.
func (p Probed) Bounded() Probed {
	p.MD5, p.Peer, p.Generation, p.Worse = digestWord(p.MD5), digestWord(p.Peer), boundGeneration(p.Generation),
		boundedList(p.Worse)
	return p
}

// boundedList truncates a list and its names.
func boundedList(list []string) []string {
	list = slices.Clone(list[:min(len(list), maxWorse)])
	for i := range list {
		list[i] = config.Truncate(list[i], MaxName)
	}
	return list
}

// maxWorse bounds the names in Worse.
const maxWorse = 64

// Bounded returns the report with truncated texts, and without parameters that no config can have.
func (r Report) Bounded() Report {
	r = r.words()
	r.Parameters, r.Health, r.Actions = bound(r.Parameters), bound(r.Health), bound(r.Actions)
	if slices.ContainsFunc(r.Parameters,
		func(p ParameterReport) bool { return isOversized(p) || len(p.Detail) > MaxText }) {
		r.Parameters = slices.DeleteFunc(slices.Clone(r.Parameters), isOversized)
		for i := range r.Parameters {
			r.Parameters[i].Detail = config.Truncate(r.Parameters[i].Detail, MaxText)
		}
	}
	if slices.ContainsFunc(r.Health, func(h HealthReport) bool { return len(h.Name)+len(h.Detail) > MaxText }) {
		r.Health = slices.Clone(r.Health)
		for i := range r.Health {
			r.Health[i].Name, r.Health[i].Detail = config.Truncate(r.Health[i].Name, MaxName),
				config.Truncate(r.Health[i].Detail, MaxText)
		}
	}
	if slices.ContainsFunc(r.Actions, func(a Action) bool { return len(a.Name)+len(a.Detail) > MaxText }) {
		r.Actions = slices.Clone(r.Actions)
		for i := range r.Actions {
			r.Actions[i].Name, r.Actions[i].Detail = config.Truncate(r.Actions[i].Name, MaxName),
				config.Truncate(r.Actions[i].Detail, MaxText)
		}
	}
	return r
}

// bound truncates a list.
func bound[T any](list []T) []T { return list[:min(len(list), MaxListed):min(len(list), MaxListed)] }

// isOversized reports a parameter that no config has: its texts are too long.
func isOversized(p ParameterReport) bool {
	return len(p.ID) > MaxText || len(p.Kind) > MaxName || len(p.State) > MaxName ||
		len(p.Generation.Authority) > maxDigest
}

// Pushed returns the MD5 of the document that a result is about, "" for an invalid one: no such document was pushed.
func (r Result) Pushed() string {
	if !isMD5(r.MD5) {
		return ""
	}
	return r.MD5
}

// isMD5 reports whether a text has the form of config.MD5.
func isMD5(s string) bool {
	if len(s) != 32 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
