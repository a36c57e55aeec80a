package nodeconf

import (
	"testing"

	"edgespan/config"
)

func TestADocumentIsTheSameInBothSyntaxes(t *testing.T) {
	want, faults := config.ParseObject([]byte(`{"a":{"b":1,"c":1.5,"d":"1","e":true,"f":null,"g":{}},"h.i":-3}`))
	if faults != nil {
		t.Fatal(faults)
	}
	for _, text := range []string{
		`{"a":{"b":1,"c":1.5,"d":"1","e":true,"f":null,"g":{}},"h.i":-3}`,
		"a:\n  b: 1\n  c: 1.5\n  d: \"1\"\n  e: true\n  f: null\n  g: {}\nh.i: -3\n",
		"# a comment\na: {b: 1, c: 1.5, d: '1', e: true, f: , g: {}}\n\"h.i\": -3\n",
	} {
		got, faults := Document([]byte(text))
		if faults != nil || config.MD5(got) != config.MD5(want) {
			t.Errorf("%s:\n%s (%v)", text, config.AppendCanonical(nil, got), faults)
		}
	}
	_, faults = Document([]byte("a:\n  - 1\nb: [2]\nc: 99999999999999999999\nd: 1\nd: 2\n"))
	want2 := "a: is a list: a mapping by name or a comma-separated string is allowed\n" +
		"b: is a list: a mapping by name or a comma-separated string is allowed\n" +
		"c: is \"99999999999999999999\": a number as JSON has it is allowed\n" +
		"d: is given twice: each key once is allowed"
	if faults.Error() != want2 {
		t.Errorf("%s\nwant\n%s", faults.Error(), want2)
	}
}
