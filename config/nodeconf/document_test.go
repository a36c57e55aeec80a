package nodeconf

import (
	"encoding/json"
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

func TestDocumentWithLists(t *testing.T) {
	const want = `{"a":["x",1,true,null],"b":[],"c":["y","z"]}`
	for _, doc := range []string{
		want,
		"a: [x, 1, true, null]\nb: []\nc:\n- y\n- z\n",
		"a:\n  - x\n  - 1\n  - true\n  -\nb: []\nc: [y, 'z']\n",
	} {
		o, faults := DocumentWithLists([]byte(doc))
		if got, _ := json.Marshal(o); faults != nil || string(got) != want {
			t.Errorf("%s: %s %v", doc, got, faults)
		}
	}
	if _, faults := DocumentWithLists([]byte("a: [[1], {b: 2}]")); faults.Error() != "a.0: is a list: a scalar is "+
		"allowed in a list\na.1: is a mapping: a scalar is allowed in a list" {
		t.Error(faults)
	}
	if _, faults := Document([]byte("a: [1]")); len(faults) != 1 {
		t.Error(faults)
	}
}
