package configdb

import "cmp"

// Merge returns the effective value of layers, given from the lowest: each top-level key has the complete value of the
// last layer that has the key (seed's reference §1.4). null is a value.
func (m *Meter) Merge(layers ...Object) (out Object, err error) {
	defer m.catch(&err)
	out, _ = m.merge(layers, false)
	return out, nil
}

// Lookup is Merge that also returns, for each member of the result, the index of the layer that won.
func (m *Meter) Lookup(layers ...Object) (out Object, won []int, err error) {
	defer m.catch(&err)
	out, won = m.merge(layers, true)
	return out, won, nil
}

func (m *Meter) merge(layers []Object, winners bool) (Object, []int) {
	heads := make([][]Member, 0, len(layers))
	index := make([]int, 0, len(layers))
	limit, only, all := 0, 0, 0 // members of the largest layer; of all layers
	for i, l := range layers {
		if len(l.members) > 0 {
			heads, index = append(heads, l.members), append(index, i)
			limit, only, all = max(limit, len(l.members)), i, all+len(l.members)
		}
	}
	var won []int
	if len(heads) == 1 && !winners {
		return layers[only], nil
	}
	if all > limit { // out may grow, at most by doubling
		m.make(2 * memberCost * all)
	}
	m.make(memberCost * limit)
	out := make([]Member, 0, limit)
	for {
		m.count(8 * len(heads))
		last, next := leastKey(heads)
		if last < 0 {
			return Object{members: out}, won
		}
		out = append(out, next)
		if winners {
			won = append(won, index[last])
		}
		for i, h := range heads[:last+1] {
			if len(h) > 0 && h[0].Key == next.Key {
				heads[i] = h[1:]
			}
		}
	}
}

// leastKey returns the smallest first member of the lists and the index of the last list that begins with its key; -1
// if all lists are empty.
func leastKey(heads [][]Member) (last int, least Member) {
	last = -1
	for i, h := range heads {
		if len(h) > 0 && (last < 0 || cmp.Compare(h[0].Key, least.Key) <= 0) {
			last, least = i, h[0]
		}
	}
	return last, least
}

// MergeNested is Merge that also merges objects at the same path, at any depth. Other values, lists included, are the
// complete values of the last layer.
func (m *Meter) MergeNested(layers ...Object) (out Object, err error) {
	defer m.catch(&err)
	return m.mergeNested(layers), nil
}

func (m *Meter) mergeNested(layers []Object) (out Object) {
	for _, l := range layers {
		out = m.mergeTwo(out, l)
	}
	return out
}

func (m *Meter) mergeTwo(low, high Object) Object {
	if high.Len() == 0 {
		return low
	}
	if low.Len() == 0 {
		return high
	}
	a, b := low.members, high.members
	m.make(memberCost * (len(a) + len(b)))
	m.count(32 * (len(a) + len(b)))
	out := make([]Member, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := cmp.Compare(a[0].Key, b[0].Key); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, m.mergeMembers(a[0], b[0])), a[1:], b[1:]
		}
	}
	return Object{members: append(append(out, a...), b...)}
}

func (m *Meter) mergeMembers(low, high Member) Member {
	lo, err := m.object(low.Value)
	if err != nil {
		return high
	}
	ho, err := m.object(high.Value)
	if err != nil {
		return high
	}
	return Member{Key: high.Key, Value: m.json(m.mergeTwo(lo, ho))}
}
