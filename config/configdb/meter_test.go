package configdb

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// free is a meter without a bound.
var free *Meter

// What is refused for its cost says so, and what nobody waits for ends with the reason.
func TestAComputationEnds(t *testing.T) {
	t.Parallel()
	doc := parse(t, `{"a":"`+strings.Repeat("x", 1<<20)+`","l":[`+strings.Repeat(`"y",`, 90_000)+`1]}`)
	edit, err := parseKeysEdit(KeysGet, `[[]`+strings.Repeat(`,[]`, 1000)+`]`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewMeter(nil).Get(edit, doc); !IsTooLarge(err) {
		t.Errorf("the whole a thousand times: %v", err)
	}
	gone := errors.New("nobody waits")
	m := NewMeter(func() error { return gone })
	var sources []Object
	for range 20 {
		o, err := ObjectOf(doc)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, o)
	}
	if _, err := m.MergeData(MergeOptions{Strategy: MergeDeep}, sources); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	if _, err := ParseBody([]byte(`[` + strings.Repeat("1,", MaxBodyValues) + `1]`)); !IsTooLarge(err) {
		t.Errorf("%v", err)
	}
}

// What is moved in a long list or object by each value that comes or goes counts: a member three words, an element one.
func TestWhatIsMovedCounts(t *testing.T) {
	t.Parallel()
	const n, edits = 10_000, 100
	var members strings.Builder
	for i := range n {
		fmt.Fprintf(&members, `"k%05d":1,`, i)
	}
	for _, c := range []struct {
		name, doc string
		op        KeysOp
		item      string
		words     int
	}{
		{"elements that go", `{"at":[` + strings.Repeat("1,", n) + `1]}`, KeysDelete, `["at",0]`, 1},
		{"members that go", `{"at":{` + members.String() + `"z":1}}`, KeysDelete, `["at","k%05d"]`, 3},
		{"members that come", `{"at":{` + members.String() + `"z":1}}`, KeysSet, `["at","a%05d",1]`, 3},
	} {
		items := make([]string, edits)
		for i := range items {
			if items[i] = c.item; strings.Contains(c.item, "%") {
				items[i] = fmt.Sprintf(c.item, i)
			}
		}
		cost := func(items []string) int {
			e, err := parseKeysEdit(c.op, "["+strings.Join(items, ",")+"]")
			if err != nil {
				t.Fatal(err)
			}
			m := NewMeter(nil)
			if _, err := m.Apply(e, parse(t, c.doc)); err != nil {
				t.Fatal(err)
			}
			_, looked := m.Used()
			return looked
		}
		more, want := cost(items)-cost(items[:1]), c.words*n*(edits-1)
		if more < want*9/10 || more > want*11/10 {
			t.Errorf("%s: %d edits more cost %d, want about %d", c.name, edits-1, more, want)
		}
	}
}

// A list that is merged with itself comes out as it does where elements are taken one by one from the list that is gone
// through.
func TestKnockingOutOfItself(t *testing.T) {
	t.Parallel()
	slow := func(d deep, list []string) []string {
		list = slices.Clone(list)
		if slices.Contains(list, d.KnockoutPrefix) {
			return nil
		}
		kept := 0
		for i := 0; i < len(list); i++ {
			if item := d.removePrefix(list[i]); item != list[i] {
				text := list[i]
				list = slices.DeleteFunc(list, func(other string) bool { return other == item || other == text })
				continue
			}
			list[kept] = list[i]
			kept++
		}
		return list[:min(kept, len(list))]
	}
	d := deep{MergeOptions: MergeOptions{KnockoutPrefix: "--"}}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.SampledFrom([]string{"a", "--a", "b", "--b", "----a", "c", "--c", "--d", ""})).Draw(t,
			"list")
		nodes := make([]*node, len(list))
		for i, s := range list {
			nodes[i] = &node{raw: Quote(s)}
		}
		var got []string
		for _, n := range d.removeKnockedOutSelf(nodes) {
			s, _ := n.text()
			got = append(got, s)
		}
		if want := slow(d, list); !slices.Equal(got, want) {
			t.Fatalf("%q: %q, want %q", list, got, want)
		}
	})
}

// Numbers are compared as Ruby does, without making numbers of their digits.
func TestNumbersAreCompared(t *testing.T) {
	t.Parallel()
	number := func(v JSON) *big.Float {
		if !isFloat(v) {
			i, _ := new(big.Int).SetString(string(v), 10)
			return new(big.Float).SetInt(i)
		}
		f, _ := strconv.ParseFloat(string(v), 64)
		return new(big.Float).SetFloat64(f)
	}
	of := rapid.OneOf(
		rapid.Map(rapid.Int64(), func(n int64) string { return fmt.Sprint(n) }),
		rapid.SampledFrom([]string{"0", "-0", "0.0", "-0.0", "1e400", "-1e400", "1e308", "1" + strings.Repeat("0", 308), "1" +
			strings.Repeat("0", 309), "-9" + strings.Repeat("9", 500)}),
		rapid.Map(rapid.Float64(), func(f float64) string { return strconv.FormatFloat(f, 'e', -1, 64) }),
		rapid.StringMatching(`-?[1-9][0-9]{0,40}`), rapid.StringMatching(`-?[1-9][0-9]{0,20}\.[0-9]{1,20}`),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b := JSON(of.Draw(t, "a")), JSON(of.Draw(t, "b"))
		x, y := (*Meter)(nil).sortable(a), (*Meter)(nil).sortable(b)
		if got, ok := (*Meter)(nil).compare(&x, &y); !ok || got != number(a).Cmp(number(b)) {
			t.Fatalf("%s and %s: %d", a, b, got)
		}
	})
}

// Integers and floats side by side are in the order of what they are worth, to the last digit.
func TestNumbersInTheirOrder(t *testing.T) {
	t.Parallel()
	ordered := []string{"-1e400", "-9007199254740993", "-9007199254740992.0", "-0.5", "0", "0.5", "9007199254740991",
		"9007199254740992.0", "9007199254740993", "9007199254740994.0", "1e300", "1" + strings.Repeat("0", 301), "1e400"}
	m := NewMeter(nil)
	for i, a := range ordered {
		for j, b := range ordered {
			x, y := m.sortable(JSON(a)), m.sortable(JSON(b))
			got, ok := m.compare(&x, &y)
			if want := i - j; !ok || (got < 0) != (want < 0) || (got > 0) != (want > 0) {
				t.Errorf("%.30s beside %.30s: %d, %v", a, b, got, ok)
			}
		}
	}
}
