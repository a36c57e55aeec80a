package facts

import "cmp"

// Merge is the effective value of layers, the lowest first: each top-level key has the
// value of the last layer that has it, whole (seed's reference §1.4). null is a value.
func Merge(layers ...Object) Object {
	o, _ := merge(layers, false)
	return o
}

// Lookup is Merge that also tells, for each member of the result, the index of the layer that won.
func Lookup(layers ...Object) (Object, []int) { return merge(layers, true) }

func merge(layers []Object, winners bool) (Object, []int) {
	heads := make([][]Member, 0, len(layers))
	index := make([]int, 0, len(layers))
	most, only := 0, 0 // members of the largest
	for i, l := range layers {
		if len(l.members) > 0 {
			heads, index = append(heads, l.members), append(index, i)
			most, only = max(most, len(l.members)), i
		}
	}
	var won []int
	if len(heads) == 1 && !winners {
		return layers[only], nil
	}
	out := make([]Member, 0, most)
	for {
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

// leastKey is the last list that begins with the least key of all, with that member; -1 if
// all are empty.
func leastKey(heads [][]Member) (last int, least Member) {
	last = -1
	for i, h := range heads {
		if len(h) > 0 && (last < 0 || cmp.Compare(h[0].Key, least.Key) <= 0) {
			last, least = i, h[0]
		}
	}
	return last, least
}

// MergeNested is Merge in which objects that two layers have at one place become one object, at
// any depth. Everything else, lists too, is the last layer's whole.
func MergeNested(layers ...Object) Object {
	var out Object
	for _, l := range layers {
		out = mergeTwo(out, l)
	}
	return out
}

func mergeTwo(low, high Object) Object {
	if high.Len() == 0 {
		return low
	}
	if low.Len() == 0 {
		return high
	}
	a, b := low.members, high.members
	out := make([]Member, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := cmp.Compare(a[0].Key, b[0].Key); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, mergeMembers(a[0], b[0])), a[1:], b[1:]
		}
	}
	return Object{members: append(append(out, a...), b...)}
}

func mergeMembers(low, high Member) Member {
	lo, err := ObjectOf(low.Value)
	if err != nil {
		return high
	}
	ho, err := ObjectOf(high.Value)
	if err != nil {
		return high
	}
	return Member{Key: high.Key, Value: mergeTwo(lo, ho).JSON()}
}
