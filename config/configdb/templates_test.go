package configdb

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// world are resources: the content of each definition, and the layers over it.
type world map[string][]string

func (w world) load(t *testing.T, deep bool) Load {
	return func(resource string) (Source, error) {
		docs, ok := w[resource]
		if !ok {
			return Source{}, conflict("there is no resource %s here", resource)
		}
		s := Source{Defaults: parse(t, docs[0]), Deep: deep}
		for _, d := range docs[1:] {
			s.Layers = append(s.Layers, object(t, d))
		}
		return s, nil
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	others := world{
		"net": {`{"mtu":1500,"dns":"%{net:gw}","gw":"192.0.2.1","unused":"%{nowhere:x}"}`,
			`{"mtu":9000.0,"deep":{"a.b":[1,"%{::fqdn}"]}}`, `{"site":"x %{net:mtu}"}`},
		"nums": {`null`, `{"i":9007199254740993,"s":"text","t":true,"n":null,"o":{"a":1},"l":[1.0]}`},
		"via":  {`{"o":"%{nums:o}","chain":"%{via:o.a}"}`},
	}
	for _, c := range []struct{ content, layer, want, won string }{
		{`{"a":1}`, `{}`, `{"a":1}`, "[-1]"},
		{`null`, `{"a":1}`, `{"a":1}`, "[0]"},
		{`[1]`, `{"a":1}`, `{"a":1}`, "[0]"},
		{`{"a":{"x":1,"y":2},"b":1}`, `{"a":{"x":3}}`, `{"a":{"x":3},"b":1}`, "[0 -1]"},
		{`{"key":"nsname.key"}`, `{}`, `{"key":"nsname.key"}`, "[-1]"},
		// A whole string keeps the type.
		{`{"a":"%{nums:i}","b":"%{nums:o}","c":"%{nums:n}","d":"%{nums:l.0}","e":["%{ nums : l }",{"f":"%{nums:t}"}]}`, `{}`,
			`{"a":9007199254740993,"b":{"a":1},"c":null,"d":1.0,"e":[[1.0],{"f":true}]}`, ""},
		{`{"a":"%{net:mtu}"}`, `{}`, `{"a":9000.0}`, ""},
		{`{"a":"%{net:deep.'a.b'.0}"}`, `{}`, `{"a":1}`, ""},
		// Within text.
		{`{"a":"<%{nums:i}|%{nums:s}|%{nums:t}|%{nums:n}|%{nums:l.0}>"}`, `{}`, `{"a":"<9007199254740993|text|true||1.0>"}`,
			""},
		// Uploaded values are opaque, whether they are asked for or referred to.
		{`{"b":"%{net:site}","c":"%{net:deep}"}`, `{"a":"%{net:mtu}"}`,
			`{"a":"%{net:mtu}","b":"x %{net:mtu}","c":{"a.b":[1,"%{::fqdn}"]}}`, "[0 -1 -1]"},
		// One reference leads to the next, also in the middle of a path.
		{`{"a":"%{net:dns}","b":"%{via:chain}","c":"%{via:o.a}"}`, `{}`, `{"a":"192.0.2.1","b":1,"c":1}`, ""},
		{`{"a":{"p":"%{self:a.q}","q":1}}`, `{}`, `{"a":{"p":1,"q":1}}`, ""},
		// What a layer replaces is not resolved.
		{`{"a":"%{nowhere:x}"}`, `{"a":2}`, `{"a":2}`, "[0]"},
		// However it is spelled; what refers to nothing keeps its spelling.
		{`{"a":"\u0025{net:mtu}","b":"<%\u007Bnums:i\u007d>","c":["\u00e9\/","\u0025 \u007b"]}`, `{}`,
			`{"a":9000.0,"b":"<9007199254740993>","c":["\u00e9\/","\u0025 \u007b"]}`, ""},
		// Escapes, and keys are not resolved.
		{`{"a":"%{::fqdn}","b":"%{facts.os} %{nums:i}","c":"%{lookup('a::b')} %{a::b}","d":"%{x","e":"%{net:'c} ` +
			`%{nums:i}","f":"%{:x}"}`, `{}`, `{"a":"%{::fqdn}","b":"%{facts.os} 9007199254740993","c":"%{lookup('a::b')} ` +
			`%{a::b}","d":"%{x","e":"%{net:'c} 9007199254740993","f":"%{:x}"}`, ""},
		{`{"a":"%%{net:mtu}","b":"100%","c":"5%%%{nums:t}","d":"%%%%{x}","e":"{x} % {y}","%{net:mtu}":1}`, `{}`,
			`{"%{net:mtu}":1,"a":"%{net:mtu}","b":"100%","c":"5%true","d":"%%{x}","e":"{x} % {y}"}`, ""},
	} {
		w := maps.Clone(others)
		w["self"] = []string{c.content, c.layer}
		if err := free.checkTemplate(parse(t, c.content)); err != nil {
			t.Errorf("%s: %v", c.content, err)
		}
		got, won, err := free.Effective("self", w.load(t, false))
		if err != nil || string(got.JSON()) != c.want || c.won != "" && fmt.Sprint(won) != c.won {
			t.Errorf("%s: %s %v %v, want %s %s", c.content, got.JSON(), won, err, c.want, c.won)
		}
	}
}

func TestTemplatesThatAreMergedDeep(t *testing.T) {
	t.Parallel()
	w := world{
		"a": {`{"h":{"x":"%{b:h.x}","y":1}}`, `{"h":{"y":{"z":"%{b:h}"}}}`, `{"h":{"y":{"w":2}}}`},
		"b": {`{"h":{"x":"%{c:v}","y":"%{b:h}"}}`, `{"h":{"y":3}}`},
		"c": {`{"v":4}`},
	}
	// that b:h.y is replaced deeper down does not help: defaults are resolved before
	_, _, err := free.Effective("a", w.load(t, true))
	if err == nil || !strings.Contains(err.Error(), "circle: b:h -> b:h") {
		t.Error(err)
	}
	w["b"][0] = `{"h":{"x":"%{c:v}"}}`
	got, won, err := free.Effective("a", w.load(t, true))
	if want := `{"h":{"x":4,"y":{"w":2,"z":"%{b:h}"}}}`; err != nil || string(got.JSON()) != want ||
		fmt.Sprint(won) != "[1]" {
		t.Errorf("%s %v %v", got.JSON(), won, err)
	}
}

func TestTemplatesThatCanNotBeResolved(t *testing.T) {
	t.Parallel()
	long := world{}
	for i := range 200 {
		long[fmt.Sprint("r", i)] = []string{fmt.Sprintf(`{"x":"%%{r%d:x}"}`, i+1)}
	}
	laughs := world{}
	for i := range 90 {
		laughs[fmt.Sprint("r", i)] = []string{fmt.Sprintf(`{"x":["%%{r%d:x}","%%{r%d:x}"]}`, i+1, i+1)}
	}
	laughs["r90"] = []string{`{"x":"ha"}`}
	nested := world{"r0": {`{"x":{"y":"%{deep:x}"}}`},
		"deep": {`null`, `{"x":` + strings.Repeat("[", 999) + strings.Repeat("]", 999) + `}`}}
	for _, c := range []struct {
		w    world
		want string
	}{
		{world{"r0": {`{"x":"%{b:y}"}`}, "b": {`{"y":["%{r0:x}"]}`}},
			"template: its references go in a circle: r0:x -> b:y -> r0:x"},
		{world{"r0": {`{"x":"%{r0:x}"}`}}, "circle: r0:x -> r0:x"},
		{world{"r0": {`{"x":"%{b:y}"}`}, "b": {`{"y":"%{b:z}","z":"%{b:y}"}`}}, "circle: b:y -> b:z -> b:y"},
		{world{"r0": {`{"x":"%{r0:x.y}"}`}}, "circle: r0:x -> r0:x"},
		{world{"r0": {`{"x":"a %{gone:y}"}`}}, "template r0:x: %{gone:y}: there is no resource gone here"},
		{world{"r0": {`{"x":"%{b:y.z}"}`}, "b": {`{"y":{}}`}},
			"template r0:x: %{b:y.z}: the resource b has no such key there"},
		{world{"r0": {`{"x":"%{b:y}"}`}, "b": {`{"z":1}`}}, "the resource b has no such key there"},
		{world{"r0": {`{"x":"a %{b:y}"}`}, "b": {`{"y":{}}`}},
			"%{b:y} is an object: must be a string, a number, a boolean or null within text"},
		{world{"r0": {`{"x":"a %{b:}"}`}},
			"is misspelt: must be parts joined by dots, '' or \"\" around one that has a dot in it: must be " +
				"%{resource:key.path}, or %%{ for a literal %{"},
		{long, "its references lead too far: r0:x -> … -> r100:x: must be at most 100 in a row"},
		{laughs, "its references stand for too much: must be at most 16777216 bytes"},
		{nested, "nested too deep with what it refers to: must be at most 1000 levels"},
	} {
		_, _, err := free.Effective("r0", c.w.load(t, false))
		var fault *Error
		if !errors.As(err, &fault) || fault.Kind != Conflict || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	broken := errors.New("the store is away")
	_, _, err := free.Effective("r0", func(resource string) (Source, error) {
		if resource == "r0" {
			return Source{Defaults: JSON(`{"x":"%{b:y}"}`)}, nil
		}
		return Source{}, broken
	})
	if fault := (*Error)(nil); !errors.Is(err, broken) || errors.As(err, &fault) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestReferencesThatAreMisspelt(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`{"a":"%{b:}"}`:                 "a: the reference %{b:}: key  is misspelt",
		`{"a":["x",{"b":"%{b:c..d}"}]}`: "a: 1: b: the reference %{b:c..d}: key c..d is misspelt",
	} {
		err := free.checkTemplate(parse(t, content))
		var fault *Error
		if !errors.As(err, &fault) || fault.Kind != Malformed || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", content, err, want)
		}
	}
}

func TestAReferenceToAMaskIsMasked(t *testing.T) {
	t.Parallel()
	w := world{
		"a": {`{"url":"http://admin:%{b:password}@x","p":"%{b:password}","q":"%{b:password.inner}","n":"%{b:name}"}`},
		"b": {`null`, `{"name":"n","password":{"$masked":true}}`},
	}
	got, _, err := free.Effective("a", w.load(t, false))
	if want := `{"n":"n","p":{"$masked":true},"q":{"$masked":true},"url":{"$masked":true}}`; err != nil ||
		string(got.JSON()) != want {
		t.Errorf("%s %v, want %s", got.JSON(), err, want)
	}
}
