package pki

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestJoinTokens(t *testing.T) {
	text, kept, err := NewJoinToken("edge-1", start.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	first := Request{Node: nodeA, Key: "k1"}
	spent, err := kept.Redeem(start, text, "edge-1", first)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := NewJoinToken("edge-1", start.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		token JoinToken
		now   time.Time
		text  string
		node  string
		r     Request
		want  error
	}{
		"fresh":                          {kept, start, text, "edge-1", first, nil},
		"another token":                  {kept, start, other, "edge-1", first, ErrTokenUnknown},
		"no token":                       {kept, start, "", "edge-1", first, ErrTokenUnknown},
		"a token of another name":        {kept, start, text, "edge-2", first, ErrTokenName},
		"expired":                        {kept, start.Add(time.Hour), text, "edge-1", first, ErrTokenExpired},
		"a moment before":                {kept, start.Add(time.Hour - 1), text, "edge-1", first, nil},
		"replayed by another node":       {spent, start, text, "edge-1", Request{Node: nodeB, Key: "k1"}, ErrTokenUsed},
		"replayed with another key":      {spent, start, text, "edge-1", Request{Node: nodeA, Key: "k2"}, ErrTokenUsed},
		"said again after a lost answer": {spent, start, text, "edge-1", first, nil},
		"said again after its end":       {spent, start.Add(time.Hour), text, "edge-1", first, ErrTokenExpired},
	} {
		got, err := test.token.Redeem(test.now, test.text, test.node, test.r)
		if !errors.Is(err, test.want) || (test.want == nil) != (err == nil) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
		if err == nil && (got.Used == nil || *got.Used != TokenUse{Node: nodeA, Key: "k1", At: start} &&
			name != "a moment before") {
			t.Errorf("%s: used %+v", name, got.Used)
		}
	}
	if kept.Used != nil {
		t.Error("Redeem changed the record that it was given")
	}
}

// Only the hash is kept, and no error shows the text.
func TestATokensTextIsNowhereKept(t *testing.T) {
	text, kept, err := NewJoinToken("edge-1", start)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := JoinTokenHash(text)
	if err != nil || hash != kept.Hash || strings.Contains(hash, text[4:]) {
		t.Errorf("%s for %+v: %v", hash, kept, err)
	}
	for _, bad := range []string{"", "x", text[:len(text)-1], text + "A", "eso_" + text[4:], strings.ToUpper(text),
		text[:46] + "="} {
		_, err := JoinTokenHash(bad)
		if !errors.Is(err, ErrTokenForm) {
			t.Errorf("%q: %v", bad, err)
		} else if len(bad) > 8 && strings.Contains(err.Error(), bad[4:12]) {
			t.Errorf("the error shows it: %v", err)
		}
	}
	if _, _, err := NewJoinToken("", start); err == nil {
		t.Error("a token for no name")
	}
	seen := map[string]bool{}
	for range 1000 {
		text, _, err := NewJoinToken("n", start)
		if err != nil || seen[text] || len(text) != 47 {
			t.Fatalf("%q: %v", text, err)
		}
		seen[text] = true
	}
}

func TestRoles(t *testing.T) {
	for _, good := range []Role{Viewer, Operator, Admin} {
		if got, err := ParseRole(string(good)); err != nil || got != good {
			t.Errorf("%q is %q: %v", good, got, err)
		}
	}
	for _, bad := range []string{"", "root", "Admin"} {
		if _, err := ParseRole(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestOperatorTokens(t *testing.T) {
	text, kept, err := NewOperatorToken("ann", Operator, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if hash, err := OperatorTokenHash(text); err != nil || hash != kept.Hash {
		t.Errorf("%s: %v", hash, err)
	}
	if _, _, err := NewOperatorToken("ann", "root", start); err == nil {
		t.Error("an unknown role")
	}
}

// However often and by whoever a token is tried, one key gets it.
func TestOneKeyForOneToken(t *testing.T) {
	text, fresh, err := NewJoinToken("n", start.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		token, winner := fresh, ""
		for range rapid.IntRange(1, 20).Draw(t, "tries") {
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
			after, err := token.Redeem(start, text, "n", Request{Node: nodeA, Key: key})
			if (err == nil) != (winner == "" || winner == key) {
				t.Fatalf("key %s after %q: %v", key, winner, err)
			}
			if err == nil {
				token, winner = after, key
			}
		}
	})
}

func FuzzParseRequest(f *testing.F) {
	r := newCredentialsRequest(f)
	f.Add(r)
	f.Add([]byte{0x30, 0})
	f.Fuzz(func(t *testing.T, der []byte) {
		if req, err := ParseRequest(der); err == nil && (req.Key == "" || req.public == nil) {
			t.Error("half a request")
		}
	})
}

func newCredentialsRequest(f *testing.F) []byte {
	f.Helper()
	c, _ := OpenCredentials(f.TempDir(), nodeA, nil)
	der, err := c.RenewalRequest()
	if err != nil {
		f.Fatal(err)
	}
	return der
}

func FuzzParseBundle(f *testing.F) {
	b, err := newCA(start)
	if err != nil {
		f.Fatal(err)
	}
	b.roots = b.chain
	text, err := b.format()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := parseBundle(text)
		if err != nil {
			return
		}
		out, err := b.format()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseBundle(out)
		if err != nil || len(again.chain) != len(b.chain) || len(again.roots) != len(b.roots) ||
			(again.key == nil) != (b.key == nil) {
			t.Errorf("not the same after a round trip: %v", err)
		}
	})
}

func FuzzParsePin(f *testing.F) {
	f.Add("sha256:" + strings.Repeat("ab:", 31) + "ab")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := ParsePin(text); err == nil {
			if q, err := ParsePin(p.String()); err != nil || p != q {
				t.Errorf("%v, %v", q, err)
			}
		}
	})
}

func FuzzTokenHash(f *testing.F) {
	f.Add("esj_" + strings.Repeat("A", 43))
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := JoinTokenHash(text); err == nil && len(text) != 47 {
			t.Errorf("%q is taken", text)
		}
	})
}
