package metadata

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"edgespan/config"
)

// numbers are the permitted numbers: single values, and ranges with both ends included. Without either, none is
// permitted.
type numbers[T int64 | float64] struct {
	values []T
	ranges [][2]T
}

func (n *numbers[T]) has(v T) bool {
	return slices.Contains(n.values, v) ||
		slices.ContainsFunc(n.ranges, func(r [2]T) bool { return r[0] <= v && v <= r[1] })
}

// rule returns the rule that a number outside of n violates.
func (n *numbers[T]) rule() string {
	if len(n.ranges) > 0 {
		return RuleRange
	}
	return RuleValue
}

// describe formats the numbers, as in "from 1 to 12 or 35".
func (n *numbers[T]) describe(limit int, show func(T) string) string {
	var parts []string
	for _, r := range n.ranges {
		parts = append(parts, "from "+show(r[0])+" to "+show(r[1]))
	}
	for _, v := range n.values {
		parts = append(parts, show(v))
	}
	return listAlternatives(parts, limit)
}

// texts are the permitted strings: listed ones, matches of a pattern, and numbers in ranges. Without any of these, all
// strings are permitted.
type texts struct {
	values  []string
	listed  bool
	pattern string
	regex   *regexp.Regexp
	ints    *numbers[int64]
	floats  *numbers[float64]
	// orInteger is edgespan's extension: an integer counts as its digits, such as the port 80.
	orInteger bool
}

// of returns a value as a string.
func (t *texts) of(value any) (string, bool) {
	if i, ok := value.(int64); ok && t != nil && t.orInteger {
		return strconv.FormatInt(i, 10), true
	}
	s, ok := value.(string)
	return s, ok
}

func (t *texts) any() bool { return !t.listed && t.regex == nil && t.ints == nil && t.floats == nil }

func (t *texts) has(s string) bool {
	switch {
	case t.any() || slices.Contains(t.values, s):
		return true
	case t.regex != nil && t.regex.MatchString(widenBytes(s)):
		return true
	case t.ints != nil:
		i, ok := parseInt(s)
		return ok && t.ints.has(i)
	case t.floats != nil:
		f, ok := parseFloat(s)
		return ok && t.floats.has(f)
	}
	return false
}

func (t *texts) rule() string {
	switch {
	case t.regex != nil:
		return RuleRegex
	case t.ints != nil || t.floats != nil:
		return RuleRange
	}
	return RuleValue
}

const space = " \t\n\v\f\r"

// parseInt parses a decimal integer as the original does: with surrounding blanks and a sign.
func parseInt(s string) (int64, bool) {
	i, err := strconv.ParseInt(strings.Trim(s, space), 10, 64)
	return i, err == nil
}

func parseFloat(s string) (float64, bool) {
	s = strings.Trim(s, space)
	if strings.Trim(s, "0123456789+-.eE") != "" { // excludes hex and Inf
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// parseFlagInt parses an integer flag of the original: decimal, or hex after 0x.
func parseFlagInt(s string) (int64, bool) {
	digits, base := strings.TrimLeft(s, "+-"), 10
	if len(digits) > 2 && (digits[:2] == "0x" || digits[:2] == "0X") {
		s, base = s[:len(s)-len(digits)]+digits[2:], 16
	}
	i, err := strconv.ParseInt(s, base, 64)
	return i, err == nil
}

// flagBooleans are the boolean words of the original's flags; case does not matter.
var flagBooleans = []string{"true", "false", "1", "0", "yes", "no", "t", "f", "y", "n"}

// asInt converts a bound to an integer.
func asInt(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), v == math.Trunc(v) && v >= -1<<63 && v < 1<<63
	}
	return 0, false
}

func asFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// constraint reads the ranges at a key and, if values is set, allowedValues. It returns nil without either.
func constraint[T int64 | float64](c *compiler, o config.Object, key string, as func(any) (T, bool),
	values bool) *numbers[T] {
	var n numbers[T]
	given := false
	c.list(o, key, &given, func(v any) {
		pair, ok := v.([]any)
		if !ok || len(pair) != 2 {
			c.addFault(wrongType(v), "must be a range: an array of its two ends")
			return
		}
		low, isLow := as(pair[0])
		high, isHigh := as(pair[1])
		switch {
		case !isLow || !isHigh:
			c.addFault("invalid range from "+plain(pair[0])+" to "+plain(pair[1]), config.MustBe("two "+plural[T]()))
		case low > high:
			c.addFault("invalid range from "+plain(pair[0])+" down to "+plain(pair[1]), "must have the smaller end first")
		default:
			n.ranges = append(n.ranges, [2]T{low, high})
		}
	})
	if values {
		c.list(o, "allowedValues", &given, func(v any) {
			if t, ok := as(v); ok {
				n.values = append(n.values, t)
			} else {
				c.addFault(shown(v), config.MustBe(plural[T]()))
			}
		})
	}
	if !given {
		return nil
	}
	return &n
}

func plural[T int64 | float64]() string {
	if _, ok := any(T(0)).(int64); ok {
		return "integers"
	}
	return "numbers"
}

// list reads an optional array.
func (c *compiler) list(o config.Object, key string, given *bool, each func(any)) {
	v, has := o[key]
	if !has {
		return
	}
	*given = true
	c.within(key, func() {
		a, ok := v.([]any)
		if !ok {
			c.addFault(wrongType(v), "must be an array")
		}
		for i, v := range a {
			c.within(strconv.Itoa(i), func() { each(v) })
		}
	})
}

// texts reads strVal.
func (c *compiler) texts(o config.Object) *texts {
	var t texts
	c.list(o, "allowedValues", &t.listed, func(v any) {
		if s, ok := v.(string); ok {
			t.values = append(t.values, s)
		} else {
			c.addFault(wrongType(v), "must be a string")
		}
	})
	if v, given := o["regexMatches"]; given {
		c.within("regexMatches", func() { c.regex(&t, v) })
	}
	t.ints = constraint(c, o, "intRanges", asInt, false)
	t.floats = constraint(c, o, "floatRanges", asFloat, false)
	if t.ints != nil && t.floats != nil {
		c.addFault("intRanges and floatRanges together", "must be only one of them")
	}
	t.orInteger, _ = c.readFlag(o, "orInteger")
	return &t
}

func (c *compiler) regex(t *texts, v any) {
	pattern, ok := v.(string)
	if !ok {
		c.addFault(wrongType(v), "must be a regular expression")
		return
	}
	regex, err := compileRegex(pattern)
	if err != nil {
		c.addFault(config.Invalid(pattern)+": "+err.Error(),
			"must be a regular expression without look-ahead, back references and counts beyond 1000")
		return
	}
	t.pattern, t.regex = pattern, regex
}
