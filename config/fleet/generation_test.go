package fleet

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"edgespan/config/layers"

	"edgespan/config"
)

func TestParseGeneration(t *testing.T) {
	const authority, counter = "must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'",
		"must be a number from 1 to 18446744073709551615 without leading zeros"
	for _, c := range []struct {
		text, want string // want is the error, or "" for a text that comes out as it went in
	}{
		{"", ""},
		{"s:1", ""},
		{"Store-1_a.b:18446744073709551615", ""},
		{strings.Repeat("a", 64) + ":7", ""},
		{"s", `generation "s": no colon: must be AUTHORITY:COUNTER`},
		{":1", `generation ":1": the authority has 0 characters: ` + authority},
		{strings.Repeat("a", 65) + ":1", `generation "` + strings.Repeat("a", 65) + `:1": the authority has 65 characters: ` +
			authority},
		{"a:b:1", `generation "a:b:1": the authority has ':': ` + authority},
		{"a b:1", `generation "a b:1": the authority has ' ': ` + authority},
		{"s:", `generation "s:": invalid counter "": ` + counter},
		{"s:0", `generation "s:0": invalid counter "0": ` + counter},
		{"s:01", `generation "s:01": invalid counter "01": ` + counter},
		{"s:+1", `generation "s:+1": invalid counter "+1": ` + counter},
		{"s:-1", `generation "s:-1": invalid counter "-1": ` + counter},
		{"s:18446744073709551616", `generation "s:18446744073709551616": invalid counter "18446744073709551616": ` + counter},
	} {
		g, err := config.ParseGeneration(c.text)
		switch {
		case err != nil && err.Error() != c.want:
			t.Errorf("%q: %v\nwant %s", c.text, err, c.want)
		case err == nil && c.want != "":
			t.Errorf("%q: no error, want %s", c.text, c.want)
		case err == nil && g.String() != c.text:
			t.Errorf("%q comes out as %q", c.text, g)
		case err != nil && g != Generation{}:
			t.Errorf("%q: %v beside an error", c.text, g)
		}
	}
}

func FuzzParseGeneration(f *testing.F) {
	for _, s := range []string{"", "s:1", "a:b:1", "s:0", "s:01", "\xff:1", "s:18446744073709551615"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if g, err := config.ParseGeneration(text); err == nil && g.String() != text {
			t.Errorf("%q comes out as %q", text, g)
		}
	})
}

func TestAllocate(t *testing.T) {
	at := func(authority string, counter uint64, d Digest) Counted {
		return Counted{Generation: Generation{Authority: authority, Counter: counter}, Digest: d}
	}
	for _, c := range []struct {
		name      string
		have      Counted
		authority string
		d         Digest
		want      Counted
		changed   bool
		err       string
	}{
		{"the first is 1", Counted{}, "s", a, at("s", 1, a), true, ""},
		{"the same config keeps its number", at("s", 4, a), "s", a, at("s", 4, a), false, ""},
		{"another takes the next", at("s", 4, a), "s", b, at("s", 5, b), true, ""},
		{"another PeerConfiguration too", at("s", 4, a), "s", Digest{"A", "P"}, at("s", 5, Digest{"A", "P"}), true, ""},
		{"another store begins at 1, which repeats nothing", at("s", 4, a), "t", a, at("t", 1, a), true, ""},
		{
			"a counter never starts over", at("s", math.MaxUint64, a), "s", b, at("s", math.MaxUint64, a), false,
			"allocate generation: the counter is at its end: a store with another id begins anew",
		},
		{"the last number holds", at("s", math.MaxUint64, a), "s", a, at("s", math.MaxUint64, a), false, ""},
		{
			"an authority has a name",
			Counted{},
			"", a,
			Counted{},
			false,
			"allocate generation: the authority has 0 characters: must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'",
		},
	} {
		got, changed, err := c.have.Allocate(c.authority, c.d)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if got != c.want || changed != c.changed || said != c.err {
			t.Errorf("%s: %v, %v, %q", c.name, got, changed, said)
		}
	}
}

// No generation ever stands for two configs, or returns after another one.
func TestPropertyGenerationsNeverRepeat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen := map[Generation]Digest{}
		var c Counted
		for range 30 {
			d := Digest{Config: rapid.StringMatching("[ab]").Draw(t, "digest")}
			before := c
			var err error
			var changed bool
			if c, changed, err = c.Allocate("s", d); err != nil {
				t.Fatal(err)
			}
			if _, had := seen[c.Generation]; c.Digest != d || changed != (c != before) || changed && had {
				t.Fatalf("%v after %v for %v, changed=%v, seen=%v", c, before, d, changed, seen)
			}
			seen[c.Generation] = d
		}
	})
}

func anyMemory(t *rapid.T) Memory {
	text := rapid.StringMatching(`[a-z"é]{0,5}`)
	when := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "sec"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).UTC()
	})
	digest := rapid.Custom(func(t *rapid.T) Digest { return Digest{text.Draw(t, "config"), text.Draw(t, "peer")} })
	versions := rapid.Custom(func(t *rapid.T) layers.Versions {
		return layers.Versions{Software: text.Draw(t, "sw"), Firmware: text.Draw(t, "fw"), Board: text.Draw(t, "board")}
	})
	m := Memory{
		Floor: rapid.Uint64().Draw(t, "floor"), Adopted: rapid.Bool().Draw(t, "adopted"),
		Releasing: text.Draw(t, "releasing"),
	}
	if rapid.Bool().Draw(t, "pushed") {
		m.Push = Attempt{
			Number:     rapid.Uint64().Draw(t, "number"),
			Generation: Generation{Authority: "s", Counter: rapid.Uint64Range(1, math.MaxUint64).Draw(t, "counter")},
			Digest:     digest.Draw(t, "digest"), For: versions.Draw(t, "for"), At: when.Draw(t, "at"),
			Undone: rapid.Bool().Draw(t, "undone"),
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "failures") {
		m.Failures = append(m.Failures, ConfigFailure{
			digest.Draw(t, "failed"), rapid.Uint64().Draw(t, "attempt"),
			rapid.SampledFrom([]Reason{Invalid, Unhealthy}).Draw(t, "reason"),
			text.Draw(t, "why"), when.Draw(t, "when"), versions.Draw(t, "of"),
		})
	}
	return m
}

// A starting controller reads what is stored of a node, and the node's state machine continues from it.
func TestPropertyMemoryIsStoredAndRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMemory(t)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseMemory(text)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("%s\nis read as %+v, %v\nwas %+v", text, got, err, m)
		}
		if got := New("n", m, Defaults("me")).Memory(); !reflect.DeepEqual(got, m) {
			t.Fatalf("a machine makes %+v of %+v", got, m)
		}
	})
}

func TestParseMemoryFaults(t *testing.T) {
	for text, want := range map[string]string{
		``:                            "parse memory of a node: unexpected end of JSON input",
		`{} {}`:                       "parse memory of a node: invalid character '{' after top-level value",
		`null`:                        "parse memory of a node: invalid type null: must be an object",
		`{"push":{"generation":"x"}}`: `parse memory of a node: generation "x": no colon: must be AUTHORITY:COUNTER`,
	} {
		if m, err := ParseMemory([]byte(text)); err == nil || err.Error() != want || !reflect.DeepEqual(m, Memory{}) {
			t.Errorf("%s: %+v, %v", text, m, err)
		}
	}
}

func FuzzParseMemory(f *testing.F) {
	f.Add([]byte(`{"push":{"number":1,"generation":"s:1","digest":{"config":"A"},"for":{},"at":"2026-03-01T12:00:00Z"},"failures":[{"digest":{}}],"adopted":true}`))
	f.Add([]byte(`{"floor":18446744073709551616}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseMemory(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Skip(err) // years that JSON cannot represent
		}
		if got, err := ParseMemory(again); err != nil || !reflect.DeepEqual(got, m) && string(again) == string(text) {
			t.Errorf("%s: %+v, %v", again, got, err)
		}
		n := New("n", m, Defaults("me"))
		n.Step(noon, Tick{})
		n.Explain(noon)
	})
}

// A node's messages about its faults are its own text: many and long ones do not fill the store.
func TestMemoryHasBounds(t *testing.T) {
	var m Memory
	for i := range 100 {
		m.recordFailure(ConfigFailure{Digest: Digest{Config: string(rune('a' + i%50))}, Why: strings.Repeat("é", 4000),
			At: noon.Add(time.Duration(i))})
	}
	if len(m.Failures) != maxFailures || m.Failures[0].At != noon.Add(100-maxFailures) {
		t.Errorf("%d failures, the first of %v", len(m.Failures), m.Failures[0].At)
	}
	if why := m.Failures[0].Why; len(why) > longestWhy+3 || !strings.HasSuffix(why, "é…") {
		t.Errorf("%d bytes, ending with %q", len(why), why[len(why)-4:])
	}
}
