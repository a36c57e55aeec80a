package nodeconf

import "testing"

func TestTheCanonicalForm(t *testing.T) {
	root, fs := read([]byte("b: {x: 007, w: true}\na: \"t\\tq\\\"\\u0001\\u2028é\"\nc: {}\n"))
	if len(fs) > 0 {
		t.Fatal(fs)
	}
	b := appendCanonical(nil, root, 0)
	want := "{\n  \"a\": \"t\\tq\\\"\\u0001\u2028é\",\n  \"b\": {\n    \"w\": true,\n    \"x\": 7\n  },\n  \"c\": {}\n}"
	if string(b) != want {
		t.Errorf("got\n%s\nwant\n%s", b, want)
	}
}

func TestTheMD5IsOfWhatADocumentSaysAndNotOfHow(t *testing.T) {
	md5 := func(doc string) string {
		c, err := Parse([]byte(doc))
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		return c.MD5
	}
	if got, want := md5("{}"), "99914b932bd37a50b983c5e7c90ae93b"; got != want { // MD5 of "{}"
		t.Errorf("{}: %s, want %s", got, want)
	}
	// What md5sum says of the canonical form, written by hand.
	const want = "8950f76916961453df3825eb333518f4"
	for _, doc := range []string{
		"ports:\n  wan: {uplink: true, ifName: eth0, mtu: 1400} # a comment\n",
		`{"ports":{"wan":{"mtu":1400,"ifName":"eth0","uplink":true}}}`,
	} {
		if got := md5(doc); got != want {
			t.Errorf("%s: %s, want %s", doc, got, want)
		}
	}
	if md5("ports: {wan: {ifName: eth0, uplink: true, mtu: 1401}}") == want {
		t.Error("another value has the same MD5")
	}
}
