package configdb

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// sort sorts elements, and returns an error if they have no order. It decodes each element once.
func (d deep) sort(ns []*node) error {
	all := make([]sortable, len(ns))
	for i, n := range ns {
		all[i] = d.m.sortable(n.json())
		all[i].node = n
	}
	var fault error
	slices.SortStableFunc(all, func(a, b sortable) int {
		c, ok := d.m.compare(&a, &b)
		if !ok && fault == nil {
			fault = conflict("key %s: a merged list can't be sorted: %s is mixed with %s: must be strings or numbers alone",
				d.key, kindOf(a.raw), kindOf(b.raw))
		}
		return c
	})
	for i := range all {
		ns[i] = all[i].node
	}
	return fault
}

// sortable is a value decoded for comparison, so that the cost of decoding arises once.
type sortable struct {
	node  *node
	raw   JSON
	kind  byte // '"', '0' for any number, '[', 0 for all other values
	text  string
	float float64
	subs  []sortable
}

func (m *Meter) sortable(v JSON) sortable {
	m.count(len(v) + 64)
	m.make(128)
	s := sortable{raw: v}
	switch {
	case v[0] == '"':
		m.make(len(v))
		s.kind = '"'
		s.text, _ = v.Text()
	case isNumber(v):
		s.kind = '0'
		s.float, _ = strconv.ParseFloat(string(v), 64) // infinite beyond the range, as in Ruby
	case v[0] == '[':
		s.kind = '['
		for _, e := range m.elements(v) {
			s.subs = append(s.subs, m.sortable(e))
		}
	}
	return s
}

// compare compares two values; it returns false if they have no order.
func (m *Meter) compare(a, b *sortable) (int, bool) {
	m.count(32)
	switch {
	case a.kind != b.kind || a.kind == 0:
		m.count(len(a.raw) + len(b.raw))
		return 0, same(a.raw, b.raw)
	case a.kind == '"':
		m.count(min(len(a.text), len(b.text)))
		return strings.Compare(a.text, b.text), true
	case a.kind == '0':
		return m.compareNumbers(a, b), true
	}
	for i := range min(len(a.subs), len(b.subs)) {
		if c, ok := m.compare(&a.subs[i], &b.subs[i]); c != 0 || !ok {
			return c, ok
		}
	}
	return len(a.subs) - len(b.subs), true
}

// compareNumbers compares two numbers as Ruby does: floats, and integers of any size. It compares integers by their
// digits, since parsing takes time quadratic in the number of digits.
func (m *Meter) compareNumbers(a, b *sortable) int {
	m.count(min(len(a.raw), len(b.raw)))
	switch af, bf := isFloat(a.raw), isFloat(b.raw); {
	case af && bf:
		return cmp.Compare(a.float, b.float)
	case af:
		return -m.compareIntFloat(b, a.float)
	case bf:
		return m.compareIntFloat(a, b.float)
	}
	return compareInts(a.raw, b.raw)
}

// compareInts compares two integers by their digits; canonical integers have no leading zeros.
func compareInts(a, b JSON) int {
	x, xs := digitsOf(a)
	y, ys := digitsOf(b)
	if xs != ys {
		return cmp.Compare(xs, ys)
	}
	c := cmp.Compare(len(x), len(y))
	if c == 0 {
		c = bytes.Compare(x, y)
	}
	return c * xs
}

// digitsOf returns the digits and the sign of an integer.
func digitsOf(v JSON) ([]byte, int) {
	switch {
	case string(v) == "0" || string(v) == "-0":
		return []byte("0"), 0
	case v[0] == '-':
		return v[1:], -1
	}
	return v, 1
}

// maxDigits is one more than the digits that a finite float can have before its point.
const maxDigits = 310

// compareIntFloat compares an integer with a float. It compares the float nearest to the integer first, and parses the
// integer only if both are equal, when it has fewer than maxDigits digits.
func (m *Meter) compareIntFloat(i *sortable, f float64) int {
	digits, sign := digitsOf(i.raw)
	switch {
	case math.IsInf(f, 0):
		return -cmp.Compare(f, 0)
	case len(digits) >= maxDigits:
		return sign
	case i.float != f:
		return cmp.Compare(i.float, f)
	}
	m.make(1 << 10)
	exact, _ := new(big.Int).SetString(string(i.raw), 10)
	return new(big.Float).SetInt(exact).Cmp(big.NewFloat(f))
}

func isNumber(v JSON) bool { return v[0] == '-' || isDigit(v[0]) }

// isFloat reports whether Ruby reads a number literal as a float rather than as an integer.
func isFloat(v JSON) bool { return bytes.ContainsAny(v, ".eE") }

// identity returns the same text for values that are equal by Ruby's eql?: 1.0 and 1.00, but not 1.
func (m *Meter) identity(v JSON) string {
	m.count(4 * len(v))
	m.make(3*len(v) + 64)
	v = v.canonicalStrings()
	b := make([]byte, 0, len(v))
	for at := 0; at < len(v); {
		to := at + 1
		switch {
		case v[at] == '"':
			to = skipString(v, at)
			b = append(b, v[at:to]...)
		case isNumber(v[at:]):
			to = skip(v, at)
			b = append(b, plainNumber(v[at:to])...)
		default:
			b = append(b, v[at])
		}
		at = to
	}
	return string(b)
}

func plainNumber(v JSON) string {
	if string(v) == "-0" {
		return "0"
	}
	if !isFloat(v) {
		return string(v)
	}
	f, _ := strconv.ParseFloat(string(v), 64)
	if f == 0 {
		f = 0 // not -0.0
	}
	return strconv.FormatFloat(f, 'e', -1, 64)
}
