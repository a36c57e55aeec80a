package configdb

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func secrets(t *testing.T, paths ...string) []Secret {
	t.Helper()
	out, err := ParseSecrets(paths)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSecretsAreMaskedAndKept(t *testing.T) {
	t.Parallel()
	const doc = `{"*":1,"a.b":{"p":"x"},"l":[{"k":1},{"k":2,"o":3},4],"p":null,"u":{"eve":{"pw":"1"},"bob":{"pw":{"in":2}},"n":5}}`
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{nil, doc},
		{[]string{"none", "p.x", "u.7"}, doc},
		{[]string{"p"}, strings.Replace(doc, `"p":null`, `"p":`+masked, 1)},
		{[]string{"'a.b'.p"}, strings.Replace(doc, `"p":"x"`, `"p":`+masked, 1)},
		{[]string{"'*'"}, strings.Replace(doc, `"*":1`, `"*":`+masked, 1)},
		{[]string{"l.*.k"}, strings.Replace(doc, `[{"k":1},{"k":2,`, `[{"k":`+masked+`},{"k":`+masked+`,`, 1)},
		// any of it
		{[]string{"l.1"}, strings.Replace(doc, `[{"k":1},{"k":2,"o":3},4]`, `[`+masked+`,`+masked+`,`+masked+`]`, 1)},
		{[]string{"l.7.k"}, strings.Replace(doc, `[{"k":1},{"k":2,`, `[{"k":`+masked+`},{"k":`+masked+`,`, 1)},
		{[]string{"p", "p.*"}, strings.Replace(doc, `"p":null`, `"p":`+masked, 1)}, // no mask in a mask
		{[]string{"u.*.pw", "u.*.pw.in", "u.bob.*"},
			strings.NewReplacer(`"pw":"1"`, `"pw":`+masked, `"pw":{"in":2}`, `"pw":`+masked).Replace(doc)},
	} {
		s := secrets(t, c.paths...)
		canonical := parse(t, doc)
		want := string(parse(t, c.want))
		got := Mask(canonical, s)
		if string(got) != want {
			t.Errorf("%s: %s, want %s", c.paths, got, want)
		}
		back, err := free.Unmask(got, canonical, s)
		if err != nil || string(back) != string(canonical) {
			t.Errorf("%s: unmasked %s %v", c.paths, back, err)
		}
	}
	s := secrets(t, "u.*.pw")
	got, err := free.Unmask(parse(t, `{"u":{"bob":{"pw":{"$masked":true}},"eve":{"pw":"new"}},"x":{"$masked":true}}`),
		parse(t, doc), s)
	if want := `{"u":{"bob":{"pw":{"in":2}},"eve":{"pw":"new"}},"x":{"$masked":true}}`; err != nil || string(got) != want {
		t.Errorf("%s %v, want %s", got, err, want)
	}
	for _, old := range []string{`{"u":{}}`, `{}`, ``, `{"u":7}`} {
		_, err := free.Unmask(parse(t, `{"u":{"eve":{"pw":{"$masked":true}}}}`), JSON(old), s)
		if fault := (*Error)(nil); !errors.As(err, &fault) || fault.Kind != Malformed ||
			!strings.HasPrefix(err.Error(), "u.eve.pw is masked") {
			t.Errorf("%s: %v", old, err)
		}
	}
	if _, err := ParseSecrets([]string{"a", "b..c"}); err == nil {
		t.Error("a misspelt path is taken")
	}
}

func TestAnErrorHidesASecret(t *testing.T) {
	t.Parallel()
	doc := parse(t, `{"u":{"eve":{"pw":"hunter2","at":["x"]}}}`)
	_, err := At(doc, []string{"u", "eve", "pw", "x"})
	var fault *Error
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), "hunter2") {
		t.Fatal(err)
	}
	for path, hides := range map[string]bool{"u.*.pw": true, "u": true, "u.bob.pw": false, "u.eve.pw.x": false,
		"*": true} {
		got := fault.Hide(secrets(t, path)).Error()
		if strings.Contains(got, "hunter2") == hides || !strings.HasPrefix(got, "Leaf value ") {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := slices.Contains(strings.Fields(fault.Hide(secrets(t, "u")).Error()), "string"); !got {
		t.Error("the kind of the value is not told")
	}
}

// What was declared secret at an index stays secret when another element goes, and is never given
// to another element by a write of somebody who may not see it.
func TestSecretsFollowTheElementsOfLists(t *testing.T) {
	t.Parallel()
	const old = `{"users":[{"n":"a","p":"A"},{"n":"b","p":"B"},{"n":"c","p":"C"}]}`
	const m = masked
	s := secrets(t, "users.2.p")
	if got := Mask(parse(t, `{"users":[{"n":"a","p":"A"},{"n":"c","p":"C"}],"o":{"2":{"p":1}}}`),
		s); strings.Contains(string(got), "C") || !strings.Contains(string(got), `{"p":1}`) {
		t.Errorf("after an element went, a viewer sees %s", got)
	}
	for _, c := range []struct{ name, write, want string }{
		{"one goes", `[{"n":"a","p":M},{"n":"c","p":M}]`, `[{"n":"a","p":"A"},{"n":"c","p":"C"}]`},
		{"two change places", `[{"n":"c","p":M},{"n":"b","p":M},{"n":"a","p":M}]`,
			`[{"n":"c","p":"C"},{"n":"b","p":"B"},{"n":"a","p":"A"}]`},
		{"one is changed where it is", `[{"n":"a","p":M},{"n":"x","p":M},{"n":"c","p":M}]`,
			`[{"n":"a","p":"A"},{"n":"x","p":"B"},{"n":"c","p":"C"}]`},
		{"one is new and has a value", `[{"n":"new","p":"N"},{"n":"a","p":M},{"n":"b","p":M},{"n":"c","p":M}]`,
			`[{"n":"new","p":"N"},{"n":"a","p":"A"},{"n":"b","p":"B"},{"n":"c","p":"C"}]`},
		{"one is new and has none", `[{"n":"new","p":M},{"n":"a","p":M},{"n":"b","p":M},{"n":"c","p":M}]`, ""},
		{"one goes and another is changed", `[{"n":"a","p":M},{"n":"x","p":M}]`, ""},
		{"one duplicate", `[{"n":"a","p":M},{"n":"a","p":M},{"n":"c","p":M}]`, `twice`},
		{"one is moved and its copy stays", `[{"n":"c","p":M},{"n":"b","p":M},{"n":"c","p":M}]`, `twice`},
	} {
		write := parse(t, `{"users":`+strings.ReplaceAll(c.write, ":M", ":"+m)+`}`)
		got, err := free.Unmask(write, parse(t, old), s)
		switch c.want {
		case "":
			if fault := (*Error)(nil); !errors.As(err, &fault) || fault.Kind != Malformed {
				t.Errorf("%s: %s, %v", c.name, got, err)
			}
		case "twice":
			if strings.Count(string(got), `"p":"A"`) > 1 || strings.Count(string(got), `"p":"C"`) > 1 {
				t.Errorf("%s: a secret is copied: %s, %v", c.name, got, err)
			}
		default:
			if want := `{"users":` + c.want + `}`; err != nil || string(got) != string(parse(t, want)) {
				t.Errorf("%s: %s, %v; want %s", c.name, got, err, want)
			}
		}
	}
	nested := parse(t, `{"l":[{"i":1,"in":[{"k":"x","p":1},{"k":"y","p":2}]},{"i":2,"in":[{"k":"z","p":3}]}]}`)
	s = secrets(t, "l.*.in.1.p")
	got, err := free.Unmask(parse(t, `{"l":[{"i":2,"in":[{"k":"z","p":`+m+`}]},{"i":1,"in":[{"k":"x","p":`+m+
		`},{"k":"y","p":`+
		m+`}]}]}`), nested, s)
	if want := `{"l":[{"i":2,"in":[{"k":"z","p":3}]},{"i":1,"in":[{"k":"x","p":1},{"k":"y","p":2}]}]}`; err != nil ||
		string(got) != want {
		t.Errorf("lists in lists: %s, %v", got, err)
	}
	long := `{"users":[` + strings.TrimSuffix(strings.Repeat(`{"n":1,"p":"A"},`, 30_000), ",") + `]}`
	write := strings.ReplaceAll(strings.Replace(long, `{"n":1,"p":"A"},`, "", 1), `"A"`, m)
	begun := time.Now()
	if _, err := new(Meter).Unmask(JSON(write), JSON(long), secrets(t, "users.2.p")); err == nil ||
		time.Since(begun) > 5*time.Second {
		t.Errorf("30,000 equal elements, of which one went: %v after %v", err, time.Since(begun))
	}
}
