package nodeproto

import (
	"slices"

	"edgespan/config"
)

// What a node can make its controller spend by what it says. Nobody stops it from saying something else each second.
const (
	MaxText = 512 // bytes of its own words
	MaxName = 256 // bytes of what it calls itself and things
	// parameters, things of its health and actions, each; 999 networks with 4,000 apps have 6,000
	MaxListed = 16 << 10
)

// maxDigest is more than any digest, authority of a generation, or UUID has.
const maxDigest = 64

// digestWord is a node's word for a digest or an authority. One that is too long is none, and equals none.
func digestWord(s string) string { return config.Cut(s, maxDigest) }

func numberWord(g Generation) Generation {
	g.Authority = digestWord(g.Authority)
	return g
}

// Bounded is a Hello with the node's own words cut.
func (h Hello) Bounded() Hello {
	h.Software, h.Firmware, h.Board = config.Cut(h.Software, MaxName), config.Cut(h.Firmware, MaxName),
		config.Cut(h.Board, MaxName)
	return h
}

// words is a report with the words cut that the memory, the standing and the row of a node
// are made of.
func (r Report) words() Report {
	r.Software, r.Firmware, r.Board = config.Cut(r.Software, MaxName), config.Cut(r.Firmware, MaxName),
		config.Cut(r.Board, MaxName)
	r.Source = config.Cut(r.Source, MaxName)
	r.MD5, r.Peer, r.Generation, r.Restores = digestWord(r.MD5), digestWord(r.Peer), numberWord(r.Generation),
		numberWord(r.Restores)
	if r.Held != nil {
		held := *r.Held
		held.By = config.Cut(held.By, MaxName)
		r.Held = &held
	}
	if r.Pending != nil {
		p := *r.Pending
		p.Generation = numberWord(p.Generation)
		p.Worse = boundedList(p.Worse)
		r.Pending = &p
	}
	return r
}

// Bounded is the answer to a probe with the node's own words cut.
func (p Probed) Bounded() Probed {
	p.MD5, p.Peer, p.Generation, p.Worse = digestWord(p.MD5), digestWord(p.Peer), numberWord(p.Generation),
		boundedList(p.Worse)
	return p
}

// boundedList is a list of names with each of them cut, and not all of a long one.
func boundedList(list []string) []string {
	list = slices.Clone(list[:min(len(list), maxWorse)])
	for i := range list {
		list[i] = config.Cut(list[i], MaxName)
	}
	return list
}

// maxWorse is how many names a node may say that are worse than before.
const maxWorse = 64

// Bounded is a report with the node's own words cut, and without what can be none of ours.
func (r Report) Bounded() Report {
	r = r.words()
	r.Parameters, r.Health, r.Actions = bound(r.Parameters), bound(r.Health), bound(r.Actions)
	if slices.ContainsFunc(r.Parameters,
		func(p Parameter) bool { return odd(p) || len(p.Detail) > MaxText }) {
		r.Parameters = slices.DeleteFunc(slices.Clone(r.Parameters), odd)
		for i := range r.Parameters {
			r.Parameters[i].Detail = config.Cut(r.Parameters[i].Detail, MaxText)
		}
	}
	if slices.ContainsFunc(r.Health, func(h Health) bool { return len(h.Name)+len(h.Detail) > MaxText }) {
		r.Health = slices.Clone(r.Health)
		for i := range r.Health {
			r.Health[i].Name, r.Health[i].Detail = config.Cut(r.Health[i].Name, MaxName),
				config.Cut(r.Health[i].Detail, MaxText)
		}
	}
	if slices.ContainsFunc(r.Actions, func(a Action) bool { return len(a.Name)+len(a.Detail) > MaxText }) {
		r.Actions = slices.Clone(r.Actions)
		for i := range r.Actions {
			r.Actions[i].Name, r.Actions[i].Detail = config.Cut(r.Actions[i].Name, MaxName),
				config.Cut(r.Actions[i].Detail, MaxText)
		}
	}
	return r
}

// bound is as much of a list as a node may tell of.
func bound[T any](list []T) []T { return list[:min(len(list), MaxListed):min(len(list), MaxListed)] }

// odd is a parameter that no config has: its words are too long for one.
func odd(p Parameter) bool {
	return len(p.ID) > MaxText || len(p.Kind) > MaxName || len(p.State) > MaxName ||
		len(p.Generation.Authority) > maxDigest
}

// Pushed is the MD5 of the document that a result is about, "" for what is none: no such document was pushed.
func (r Result) Pushed() string {
	if !isMD5(r.MD5) {
		return ""
	}
	return r.MD5
}

// isMD5 says whether a text is what config.MD5 makes.
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
