package nodes

import (
	"slices"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/nodeproto"
)

// longestDigest is more than any digest, authority of a generation, or UUID has.
const longestDigest = 64

// digestWord is a node's word for a digest or an authority. One that is too long is none, and equals none.
func digestWord(s string) string { return config.Cut(s, longestDigest) }

func numberWord(g nodeproto.Generation) nodeproto.Generation {
	g.Authority = digestWord(g.Authority)
	return g
}

// boundedHello is a Hello with the node's own words cut.
func boundedHello(h nodeproto.Hello) nodeproto.Hello {
	h.Software, h.Firmware, h.Board = config.Cut(h.Software, longestName), config.Cut(h.Firmware, longestName),
		config.Cut(h.Board, longestName)
	return h
}

// boundedWords is a report with the words cut that the memory, the standing and the row of a node
// are made of.
func boundedWords(r nodeproto.Report) nodeproto.Report {
	r.Software, r.Firmware, r.Board = config.Cut(r.Software, longestName), config.Cut(r.Firmware, longestName),
		config.Cut(r.Board, longestName)
	r.Source = config.Cut(r.Source, longestName)
	r.MD5, r.Peer, r.Generation, r.Restores = digestWord(r.MD5), digestWord(r.Peer), numberWord(r.Generation),
		numberWord(r.Restores)
	if r.Held != nil {
		held := *r.Held
		held.By = config.Cut(held.By, longestName)
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

// boundedProbed is the answer to a probe with the node's own words cut.
func boundedProbed(p nodeproto.Probed) nodeproto.Probed {
	p.MD5, p.Peer, p.Generation, p.Worse = digestWord(p.MD5), digestWord(p.Peer), numberWord(p.Generation),
		boundedList(p.Worse)
	return p
}

// boundedList is a list of names with each of them cut, and not all of a long one.
func boundedList(list []string) []string {
	list = slices.Clone(list[:min(len(list), mostWorse)])
	for i := range list {
		list[i] = config.Cut(list[i], longestName)
	}
	return list
}

// mostWorse is how many names a node may say that are worse than before.
const mostWorse = 64

// answers is the digest that a result of a push is about. What is no MD5 is none that was pushed.
func answers(r nodeproto.Result) fleet.Digest {
	if !isMD5(r.MD5) {
		return fleet.Digest{}
	}
	return fleet.Digest{Config: r.MD5}
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
