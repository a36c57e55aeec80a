package facts

import (
	"errors"
	"slices"
	"strings"
	"testing"
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
		{[]string{"none", "p.x", "l.7"}, doc},
		{[]string{"p"}, strings.Replace(doc, `"p":null`, `"p":`+masked, 1)},
		{[]string{"'a.b'.p"}, strings.Replace(doc, `"p":"x"`, `"p":`+masked, 1)},
		{[]string{"'*'"}, strings.Replace(doc, `"*":1`, `"*":`+masked, 1)},
		{[]string{"l.*.k"}, strings.Replace(doc, `[{"k":1},{"k":2,`, `[{"k":`+masked+`},{"k":`+masked+`,`, 1)},
		{[]string{"l.1"}, strings.Replace(doc, `{"k":2,"o":3}`, masked, 1)},
		{[]string{"p", "p.*"}, strings.Replace(doc, `"p":null`, `"p":`+masked, 1)}, // no mask in a mask
		{[]string{"u.*.pw", "u.*.pw.in", "u.bob.*"}, strings.NewReplacer(`"pw":"1"`, `"pw":`+masked, `"pw":{"in":2}`, `"pw":`+masked).Replace(doc)},
	} {
		s := secrets(t, c.paths...)
		canonical := parse(t, doc)
		want := string(parse(t, c.want))
		got := Mask(canonical, s)
		if string(got) != want {
			t.Errorf("%s: %s, want %s", c.paths, got, want)
		}
		back, err := Unmask(got, canonical, s)
		if err != nil || string(back) != string(canonical) {
			t.Errorf("%s: unmasked %s %v", c.paths, back, err)
		}
	}
	s := secrets(t, "u.*.pw")
	got, err := Unmask(parse(t, `{"u":{"bob":{"pw":{"$masked":true}},"eve":{"pw":"new"}},"x":{"$masked":true}}`), parse(t, doc), s)
	if want := `{"u":{"bob":{"pw":{"in":2}},"eve":{"pw":"new"}},"x":{"$masked":true}}`; err != nil || string(got) != want {
		t.Errorf("%s %v, want %s", got, err, want)
	}
	for _, old := range []string{`{"u":{}}`, `{}`, ``, `{"u":7}`} {
		_, err := Unmask(parse(t, `{"u":{"eve":{"pw":{"$masked":true}}}}`), JSON(old), s)
		if fault := (*Error)(nil); !errors.As(err, &fault) || fault.Kind != Malformed || !strings.HasPrefix(err.Error(), "u.eve.pw is masked") {
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
	for path, hides := range map[string]bool{"u.*.pw": true, "u": true, "u.bob.pw": false, "u.eve.pw.x": false, "*": true} {
		got := fault.Hide(secrets(t, path)).Error()
		if strings.Contains(got, "hunter2") == hides || !strings.HasPrefix(got, "Leaf value ") {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := slices.Contains(strings.Fields(fault.Hide(secrets(t, "u")).Error()), "string"); !got {
		t.Error("the kind of the value is not told")
	}
}
