package configdb

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestYAMLIsReadAsPuppetReadsIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         `null`,
		"# nothing\n":              `null`,
		"---\n...\n":               `null`,
		"%YAML 1.1\n---\na: yes\n": `{"a":true}`,
		`{"b": 1.0, "a": [1e5]}`:   `{"a":[1e5],"b":1.0}`, // JSON is YAML
		"just text":                `"just text"`,
		"a:\n  b:\n  - 1\n  - c: x\n    d:\n  -\n  - - 2\n    - 3\ne:\n": `{"a":{"b":[1,{"c":"x","d":null},null,[2,3]]},"e":null}`,
		"a:\n- 1\n-   b: 2\n    c: 3\nd: x":                              `{"a":[1,{"b":2,"c":3}],"d":"x"}`,
		"a: {b: [1, 'x', ], c: , d}\n":                                   `{"a":{"b":[1,"x"],"c":null,"d":null}}`,
		"a: |\n  one\n   two\n\nb: >-\n  three\n  four\nc: 'it''s'\nd: \"\\x41\\U0001F600\\n\"\n": `{"a":"one\n ` +
			`two\n","b":"three four","c":"it's","d":"A😀\n"}`,
		"url: http://x:80/y#z # comment":                      `{"url":"http://x:80/y#z"}`,
		"1: a\n0x10: b\ntrue: c\n1.50: d\n'': e\n\"x: y\": f": `{"":"e","1":"a","1.50":"d","16":"b","true":"c","x: y":"f"}`,
		"? a\n: b\n? c":                   `{"a":"b","c":null}`,
		"a\tb: c\td":                      `{"a\tb":"c\td"}`,
		"[a: b, c]":                       `[{"a":"b"},"c"]`,
		"a: &x [1, 2.50]\nb: *x\nc: [*x]": `{"a":[1,2.50],"b":[1,2.50],"c":[[1,2.50]]}`,
		"d: &d\n  x: 1\n  y: 2\ne:\n  x: 3\n  <<: *d\n  y: 4\nf: {<<: [*d, {x: 5, z: 6}]}": `{"d":{"x":1,"y":2},"e":{"x":1,"y":4},"f":{"x":1,"y":2,"z":6}}`,
		"a: &e\nb: *e\nc: !!str\nd: &f\n  x: 1\ne: !!map\n  y: 2\nf: &g !!str 5\ng: *g\n":  `{"a":null,"b":null,"c":"","d":{"x":1},"e":{"y":2},"f":"5","g":"5"}`,
		"- !!binary |\n  AAEC\n- !!str 5\n- !!int '7'\n- !!float 1e5\n- !!float 3\n- ! yes\n- !!null ''\n- !!bool yes\n- " +
			"!!seq [1]": `["AAEC\n","5",7,1e5,3,"yes",null,true,[1]]`,
		"e: >\n  ENC[PKCS7,MIIB\n  abc]\n":        `{"e":"ENC[PKCS7,MIIB abc]\n"}`,
		"a: \"%{hiera('x')}::y\"\nb: x %{::fqdn}": `{"a":"%{hiera('x')}::y","b":"x %{::fqdn}"}`,
	} {
		got, more, err := FromYAML([]byte(text))
		if err != nil || more || string(got) != want {
			t.Errorf("%s\n%s %v %v, want %s", text, got, more, err, want)
		}
	}
}

// What the second column has was seen with Debian's Ruby 3.1, save where the comment says.
func TestPlainScalarsOfYAML(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"~": `null`, "null": `null`, "nUll": `null`, "yes": `true`, "On": `true`, "TRUE": `true`, "off": `false`,
		"No": `false`, "y": `"y"`, "n": `"n"`,
		"0": `0`, "-0": `-0`, "+1": `1`, "1_000": `1000`, "1,000": `1000`, "1__0": `"1__0"`,
		"9007199254740993":               `9007199254740993`,
		"123456789012345678901234567890": `123456789012345678901234567890`,
		"017":                            `15`, "0_7": `7`, "09": `"09"`, "0x1F": `31`, "-0x1f": `-31`, "0b11": `3`,
		"0x": `"0x"`, "0xg": `"0xg"`,
		"12:30": `45000`, "1:2:3": `3723`, "-1:30": `-1800`, "1:60": `"1:60"`, "10:20:30:40": `"10:20:30:40"`,
		"1.0": `1.0`, "1.10": `1.10`, "1.": `1.0`, ".5": `0.5`, "-.5": `-0.5`, "+1.5": `1.5`, "1_000.5": `1000.5`,
		"1.5e+3": `1.5e+3`, "0.1_5": `"0.1_5"`, ".": `"."`, "-.": `"-."`, "007.5": `7.5`,
		"192.0.2.1": `"192.0.2.1"`, "1.2.3": `"1.2.3"`, "fe80::1": `"fe80::1"`, "52:54:00:12:34:56": `"52:54:00:12:34:56"`,
		// Ruby makes dates, times and symbols of them
		"2001-01-01": `"2001-01-01"`, "2001-12-14t21:59:43.10-05:00": `"2001-12-14t21:59:43.10-05:00"`, ":sym": `":sym"`,
		"=": `"="`,
		// YAML 1.2: Ruby has strings
		"1e400": `1e400`, "1e3": `1e3`, "1.5e3": `1.5e3`, "1E-2": `1E-2`, ".5e3": `0.5e3`, "0o17": `15`,
		"0b": `"0b"`, "0o9": `"0o9"`, "-": `"-"`, "+": `"+"`, "_": `"_"`, "1 2": `"1 2"`, "--x": `"--x"`, "enc": `"enc"`,
	} {
		if text == "-" || text == "=" {
			text = "'" + text + "'"
		}
		got, _, err := FromYAML([]byte("a: " + text + "\n"))
		if err != nil || string(got) != `{"a":`+want+`}` {
			t.Errorf("%s: %s %v, want %s", text, got, err, want)
		}
	}
}

func TestYAMLThatIsRefused(t *testing.T) {
	t.Parallel()
	laughs := "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n"
	for i := range 12 {
		laughs += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 8), i)
	}
	deep := "a0: &a0 [1]\n"
	for i := range 6 {
		deep += fmt.Sprintf("a%d: &a%d %s*a%d%s\n", i+1, i+1, strings.Repeat("[", 200), i, strings.Repeat("]", 200))
	}
	for text, want := range map[string]string{
		deep: "the document is nested too deep by its aliases: must be at most 1000 levels",
		"a:\n  b: [1, .inf]": `invalid YAML: the number ".inf" is not a JSON number: line 2 column 10 (a.b.1): ` +
			`must be a finite number, or a string in ""`,
		"a: -.INF":                   "(a)",
		"a: .NaN":                    `the number ".NaN" is not a JSON number`,
		"a: !!float .inf":            `the number ".inf"`,
		"1: a\n'1': b":               "duplicate key: line 2 column 1 (1): must be unique, as a string",
		"x: {a: 1, a: 2}":            "duplicate key: line 1 column 11 (x.a)",
		"a: 1\na: 1":                 "duplicate key",
		"~: 1":                       "a key is null",
		"[a]: 1":                     "a key is not a scalar: line 1 column 1",
		"a: *b":                      "unknown anchor 'b' referenced: line 1",
		"a: &a [*a]":                 `the alias "a" names no anchor that ends before it`,
		laughs:                       "its aliases stand for too much",
		"a: !foo b":                  `the tag "!foo" is unknown`,
		"a: !ruby/object:X {b: 1}":   "the tag",
		"a: !!int x":                 `"x" is not !!int`,
		"a: !!map [1]":               `the tag "!!map" is before a list`,
		"&x a: 1":                    "a key has a tag or an anchor",
		"a: {<<: 1}":                 "<< names a number: line 1 column 5 (a.<<): must be a mapping or a list of mappings",
		"a: [1":                      "did not find expected ',' or ']': line 1",
		"a: {b: 1":                   "did not find expected ',' or '}': line 1",
		"a: [1 }":                    "did not find expected ',' or ']': line 1",
		"a: b\n c: d":                "mapping values are not allowed in this context: line 2",
		"*a : 1\nb: &a x":            "unknown anchor 'a' referenced: line 2",
		"a: &a x\n*a : 1":            "a key is not a scalar: line 2 column 1",
		"a:\n\tb: 1":                 "line 2",
		strings.Repeat("[", 100_000): "nested too deep: must be at most 250 levels",
		"a:\n    b: 1\n  c: 2":       "did not find expected key: line 3",
		"\"a":                        "found unexpected end of stream: line 1",
		"a: \xff":                    "it is not UTF-8 (byte 3)",
		"a: " + strings.Repeat("[", 300) + strings.Repeat("]", 300): "nested too deep",
		strings.Repeat("- ", 300) + "x":                             "nested too deep",
	} {
		v, _, err := FromYAML([]byte(text))
		var fault *Error
		if !errors.As(err, &fault) || fault.Kind != Malformed || !strings.Contains(err.Error(), want) {
			if len(text) > 100 {
				text = text[:100]
			}
			t.Errorf("%s\n%s %v, want %s", text, v, err, want)
		}
	}
}

func TestOnlyTheFirstDocumentOfYAMLIsRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a: 1\n---\nb: 2\n", "---\na: 1\n...\n---\n[[[\n", "a: 1\n--- {b: 2}\n--- 3"} {
		v, more, err := FromYAML([]byte(text))
		if err != nil || !more || string(v) != `{"a":1}` {
			t.Errorf("%s\n%s %v %v", text, v, more, err)
		}
	}
}

func TestYAMLComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := JSON(naive(t, drawValue(t, 5)))
		text := ToYAML(v)
		got, more, err := FromYAML(text)
		if err != nil || more || !same(got, v) {
			t.Fatalf("%s became\n%s\nand came back as %s %v", v, text, got, err)
		}
	})
}

func TestYAMLThatIsWritten(t *testing.T) {
	t.Parallel()
	doc := parse(t, `{"a":{"b":[1,{"c":null,"d":[[],[2,[3]],{}]},"x `+
		`y"],"e":{}},"n":[1e5,1.0,1E400,9007199254740993],"s":["","yes","12","1.0","a: `+
		`b","x\ny","y","~","0x1","2001-01-01","\u007f\u2028","ü"," x",":a","null"],"key with: colon":"v"}`)
	const want = `a:
  b:
    - 1
    - c: null
      d:
        - []
        - - 2
          - - 3
        - {}
    - x y
  e: {}
"key with: colon": v
"n":
  - !!float 1e5
  - 1.0
  - !!float 1E400
  - 9007199254740993
s:
  - ""
  - "yes"
  - "12"
  - "1.0"
  - "a: b"
  - "x\ny"
  - "y"
  - "~"
  - "0x1"
  - "2001-01-01"
  - "\u007f\u2028"
  - "ü"
  - " x"
  - ":a"
  - "null"
`
	if got := string(ToYAML(doc)); got != want {
		t.Error(got)
	}
}

func FuzzFromYAML(f *testing.F) {
	for _, s := range []string{"a: &x [1, 2.50]\nb: *x\n", "- !!str 5\n- |\n  x\n", "{a: [b, c], <<: {d: 1}}",
		"a:\n- b\n-\n---\nc", "'", "a: !!str", "- &a\n- *a", "12:30", "? x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, _, err := FromYAML(text)
		if err != nil {
			if fault := (*Error)(nil); !errors.As(err, &fault) || !utf8.ValidString(err.Error()) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if again, err := Parse(v); err != nil || !bytes.Equal(again, v) {
			t.Fatalf("%q: %s is not canonical: %s %v", text, v, again, err)
		}
		if back, _, err := FromYAML(ToYAML(v)); err == nil && !bytes.Equal(back, v) {
			t.Fatalf("%q: %s came back as %s", text, v, back)
		}
	})
}
