package configdb

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// The cases were drawn at random and answered by Debian's ruby-deep-merge 1.1.1, called as Puppet 7 calls it: pairwise
// from the highest source, which here is the first. A result is a list of one value, null an error.
func TestDeepMergesAsTheOriginalDoes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/deep_merge.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		row := object(t, line)
		options, _ := row.Get("options")
		given, _ := row.Get("sources")
		result, _ := row.Get("result")
		o := MergeOptions{Strategy: MergeDeep, SortMergedArrays: has(options, "sort_merged_arrays"),
			MergeHashArrays: has(options, "merge_hash_arrays")}
		if has(options, "knockout_prefix") {
			o.KnockoutPrefix = "--"
		}
		var sources []Object
		for _, v := range given.Elements() {
			sources = append(sources, object(t, `{"k":`+string(v)+`}`))
		}
		got, found, err := free.LookupKeys(o, sources).Find("k")
		if string(result) == "null" {
			var fault *Error
			if !errors.As(err, &fault) || fault.Kind != Conflict {
				t.Errorf("%s: %s %v, want a conflict", line, got, err)
			}
			continue
		}
		if !found || err != nil || (*Meter)(nil).identity(listOf([]JSON{got})) != (*Meter)(nil).identity(result) {
			t.Errorf("%s: %s %v", line, got, err)
		}
	}
}

func has(v JSON, key string) bool {
	_, found := (*Meter)(nil).child(v, key)
	return found
}

func TestLookupOfAKey(t *testing.T) {
	t.Parallel()
	sources := []Object{
		object(t, `{"a.b":{"c `+
			`d":[1.0,{"e":null}]},"n":null,"s":"high","l":[[1,2],2],"h":{"x":1,"y":{"z":1}},"num":{"0":"zero"},"any":{"a":1},"low":1,"lookup_options":{"a":1}}`),
		object(t, `{"n":1,"s":"low","l":[3,1,1.0],"h":{"y":{"w":2},"v":3},"one":[1,1,[1]],"scalar":7,"s2":{"a":1},"any":2,"low":null,"lookup_options":{"b":2}}`),
	}
	for _, c := range []struct {
		merge     MergeStrategy
		key, want string
	}{
		{"", "s", `"high"`},
		{MergeFirst, "n", `null`}, // null is found
		{MergeFirst, "'a.b'", `{"c d":[1.0,{"e":null}]}`},
		{MergeFirst, `"a.b".c d.0`, `1.0`},
		{MergeFirst, ` "a.b" . 'c d' . 1 . e`, `null`},
		{MergeFirst, "h.y.z", `1`},
		{MergeFirst, "num.'0'", `"zero"`},
		{MergeUnique, "l", `[1,2,3,1.0]`},
		{MergeUnique, "s", `["high","low"]`},
		{MergeUnique, "scalar", `[7]`},
		{MergeUnique, "n", `[null,1]`}, // the highest may be anything
		{MergeUnique, "any", `[{"a":1},2]`},
		{MergeUnique, "one", `[1,1]`}, // made distinct, then flat: one source is no merge
		{MergeHash, "h", `{"v":3,"x":1,"y":{"z":1}}`},
		{MergeHash, "h.v", `3`},
		{MergeHash, "scalar", `7`},
		{MergeDeep, "h", `{"v":3,"x":1,"y":{"w":2,"z":1}}`},
		{MergeDeep, "h.y.w", `2`},
		{MergeDeep, "l", `[3,1,1.0,[1,2],2]`},
	} {
		got, found, err := free.LookupKeys(MergeOptions{Strategy: c.merge}, sources).Find(c.key)
		if !found || err != nil || string(got) != c.want {
			t.Errorf("%s %s: %s %v %v, want %s", c.merge, c.key, got, found, err, c.want)
		}
	}
	for _, key := range []string{"x", "a.b", "h.q", "n.a", "l.7", "l.-1", "num.0", "lookup_options", "lookup_options.a",
		"h.y.z2.a"} {
		if got, found, err := free.LookupKeys(MergeOptions{}, sources).Find(key); found || err != nil {
			t.Errorf("%s: %s %v, want nothing", key, got, err)
		}
	}
	for _, c := range []struct {
		merge     MergeStrategy
		key, want string
		kind      Kind
	}{
		{MergeFirst, "", "misspelt", Malformed},
		{MergeFirst, "a..b", "misspelt", Malformed},
		{MergeFirst, "a.", "misspelt", Malformed},
		{MergeFirst, ".a", "misspelt", Malformed},
		{MergeFirst, "'a", "misspelt", Malformed},
		{MergeFirst, "''", "misspelt", Malformed},
		{MergeFirst, "a'b'", "misspelt", Malformed},
		{"most", "a", "merge: invalid value most: must be first, unique, hash or deep", Malformed},
		{MergeFirst, "s.a", "key s.a: a string has no key a: an object is needed there", Conflict},
		{MergeFirst, "l.a", "a list has no key a", Conflict},
		{MergeUnique, "h", "key h: an object can't be merged by unique", Conflict},
		{MergeUnique, "low", "null can't be merged by unique", Conflict},
		{MergeHash, "s", "key s: a string can't be merged by hash: must be an object", Conflict},
	} {
		_, found, err := free.LookupKeys(MergeOptions{Strategy: c.merge}, sources).Find(c.key)
		var fault *Error
		if found || !errors.As(err, &fault) || fault.Kind != c.kind || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %s", c.merge, c.key, err, c.want)
		}
	}
}

func TestAllDataInOneObject(t *testing.T) {
	t.Parallel()
	sources := []Object{
		object(t, `{"h":{"x":{"a":1}},"s":"high","l":[1],"lookup_options":{"h":{"merge":"deep"}}}`),
		object(t, `{"h":{"x":{"b":2}},"s":{"low":1},"l":[2],"z":1.0,"lookup_options":{"l":{"merge":"unique"}}}`),
	}
	const options = `"lookup_options":{"h":{"merge":"deep"},"l":{"merge":"unique"}}`
	for o, want := range map[MergeOptions]string{
		{}:                           `{"h":{"x":{"a":1}},"l":[1],` + options + `,"s":"high","z":1.0}`,
		{Strategy: MergeHash}:        `{"h":{"x":{"a":1}},"l":[1],` + options + `,"s":"high","z":1.0}`,
		{Strategy: MergeDeep}:        `{"h":{"x":{"a":1,"b":2}},"l":[2,1],` + options + `,"s":"high","z":1.0}`,
		{MergeDeep, "", true, false}: `{"h":{"x":{"a":1,"b":2}},"l":[1,2],` + options + `,"s":"high","z":1.0}`,
	} {
		got, err := free.MergeData(o, sources)
		if err != nil || string(got.JSON()) != want {
			t.Errorf("%v: %s %v, want %s", o, got.JSON(), err, want)
		}
	}
	if _, err := free.MergeData(MergeOptions{Strategy: MergeUnique}, sources); err == nil ||
		!strings.Contains(err.Error(), "must be first, hash or deep") {
		t.Error(err)
	}
	if got, err := free.MergeData(MergeOptions{}, nil); err != nil || string(got.JSON()) != "{}" {
		t.Error(got, err)
	}
}
