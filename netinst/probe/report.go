package probe

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Classes returns how networks judge each port, by label, for a report that is sent when it changes: each class, the
// worst first, and why the port is in the worst. Measured values are left out, and the IPv6 of ports that have none.
// Choices are by network and selector.
func Classes(choices map[string]map[string]Choice) map[string]string {
	scores := map[string][]Score{}
	for _, id := range slices.Sorted(maps.Keys(choices)) {
		for _, selector := range slices.Sorted(maps.Keys(choices[id])) {
			for _, s := range choices[id][selector].Ports {
				if !IsOfIPv6(selector) || s.Class >= Dead {
					scores[s.Label] = append(scores[s.Label], s)
				}
			}
		}
	}
	out := map[string]string{}
	for label, all := range scores {
		slices.SortStableFunc(all, func(a, b Score) int { return cmp.Compare(a.Class, b.Class) })
		var words []string
		for _, s := range all {
			words = append(words, s.Class.String())
		}
		text := strings.Join(slices.Compact(words), ", ")
		if worst := all[0]; worst.Why != "" && worst.Class != Degraded {
			text += " (" + worst.Why + ")"
		}
		out[label] = text
	}
	return out
}

// Report returns which port a network leads through, by a selector, and why it moved there, and the same of its IPv6 if
// that leads through another one; "" if it has no choice. Choices are by selector.
func Report(choices map[string]Choice, selector string) string {
	own, six := choices[selector], choices[OfIPv6(selector)]
	if own.Port == "" || len(own.Ports) < 2 {
		return ""
	}
	text := "by port " + own.Port + ": " + own.Why
	if six.Port != own.Port && slices.ContainsFunc(six.Ports, func(s Score) bool { return s.Class >= Dead }) {
		text += "; IPv6 by port " + six.Port + ": " + six.Why
	}
	return text
}

// Equals returns the labels of the ports that are as good as the first: those that work, if it does, at its cost. They
// are sorted.
func (c Choice) Equals() (labels []string) {
	for _, s := range c.Ports {
		if s.Class == Working && s.Cost == c.Ports[0].Cost {
			labels = append(labels, s.Label)
		}
	}
	slices.Sort(labels)
	return labels
}
