package tape

import (
	"strings"
	"testing"
)

// told is an event that quotes its secret before it names it, as a struct and as a map.
type told struct {
	Error    string
	By       map[string]string
	Password string
}

// echo is a core that says what it was told.
type echo struct{ last told }

func (c *echo) Step(e told) []told {
	c.last = e
	return []told{e}
}

// masked is what is recorded of a step and of what is told people.
func masked(t *testing.T, events ...told) string {
	t.Helper()
	d := newDisk(1 << 20)
	record(t, d, func(r *Recorder) {
		c, l := &echo{}, r.Reel("echo", "a")
		for _, e := range events {
			r.Say(e)
			Step(l, c, e)
		}
	})
	text := d.segments[0].String()
	if !strings.Contains(text, `"effects"`) {
		t.Fatalf("nothing was recorded: %s", text)
	}
	return text
}

// The order of fields and keys is none in which secrets are named.
func TestASecretIsReplacedBeforeTheFieldThatNamesIt(t *testing.T) {
	text := masked(t, told{Error: "hunter22 is wrong", Password: "hunter22"},
		told{By: map[string]string{"a": "sesame42", "password": "sesame42"}})
	for _, secret := range []string{"hunter22", "sesame42"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is in %s", secret, text)
		}
	}
}

// A program quotes what it prints, and prints a file line by line.
func TestASecretIsReplacedInTheFormsOfTexts(t *testing.T) {
	pem := "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\nBCIEIJ+DYvh6SEqV\n-----END PRIVATE KEY-----\n"
	text := masked(t, told{Password: `hun"ter\22`}, told{Password: "hünter\t33"}, told{Password: pem},
		told{Error: `line 3: unexpected "hun\"ter\\22"`},
		told{Error: "line 3: unexpected \"h\\u00fcnter\\t33\""},
		told{Error: "line 3: BCIEIJ+DYvh6SEqV is no base64, -----BEGIN PRIVATE KEY----- is the first"})
	for _, secret := range []string{`hun`, "nter", "BCIEIJ", "MC4CAQ"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is in %s", secret, text)
		}
	}
	if !strings.Contains(text, "is the first") {
		t.Errorf("too much is replaced in %s", text)
	}
}

// Who makes a program print a URL decides neither which other words are replaced nor when the recording ends.
func TestTheSecretsOfURLs(t *testing.T) {
	text := masked(t, told{Error: "get https://app:p@ss:w0rd@h/x: ftp://t0ken@h: http://h/@x: http://h: https://[::1]:80/"},
		told{By: map[string]string{"a": "https://app:p4ss@h, https://app:w4rd@h", "b": "p4ss"}})
	for _, secret := range []string{"p@ss", "w0rd", "t0ken", ":p4ss", "w4rd"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is in %s", secret, text)
		}
	}
	for _, want := range []string{"@h/x: ftp://secret-", "http://h/@x: http://h: https://[::1]:80/", `"b":"p4ss"`,
		"https://app:secret-"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	m := newMasks()
	for i := range 2 * maxSecrets {
		m.text(strings.Repeat("x", i%9)+" https://u:"+strings.Repeat("p", i+1)+"@h", true)
	}
	if m.isFull() {
		t.Error("texts have ended the recording")
	}
}
