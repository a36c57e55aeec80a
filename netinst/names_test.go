package netinst

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	for _, tc := range []struct {
		word             string
		hostname, ifName bool
	}{
		{"web", true, true},
		{"Web-1.Edge", true, true},
		{"", false, false},
		{"-a", false, true},
		{"a-", false, true},
		{"a..b", false, true},
		{"..", false, false},
		{"a b", false, false},
		{"a\nb", false, false},
		{"a;b", false, false},
		{"a/b", false, false},
		{"eth0.100", true, true},
		{"z", true, true},
		{"A", true, true},
		{"Z", true, true},
		{"0", true, true},
		{"9", true, true},
		{"a`", false, false},
		{"a[", false, false},
		{strings.Repeat("a", 15), true, true},
		{strings.Repeat("a", 16), true, false},
		{strings.Repeat("a", 63), true, false},
		{strings.Repeat(strings.Repeat("a", 49)+".", 5) + "aaa", true, false},
		{strings.Repeat(strings.Repeat("a", 49)+".", 5) + "aaaa", false, false},
		{strings.Repeat("a", 64), false, false},
		{strings.Repeat("a.", 150), false, false},
	} {
		if _, err := ParseHostname(tc.word); (err == nil) != tc.hostname {
			t.Errorf("host name %q: %v", tc.word, err)
		}
		if _, err := ParseIfName(tc.word); (err == nil) != tc.ifName {
			t.Errorf("interface name %q: %v", tc.word, err)
		}
	}
}

func TestAnEmptyHostNameIsReportedByItsLength(t *testing.T) {
	if _, err := ParseHostname(""); err == nil || !strings.HasPrefix(err.Error(), "invalid length of 0 octets") {
		t.Error(err)
	}
}

func TestKeysOfAdapters(t *testing.T) {
	k := AdapterKey{appA, 7}
	for text, ok := range map[string]bool{k.String(): true, "x#7": false, appA.String() + "#x": false, appA.String() +
		"#": false, appA.String(): false, "": false} {
		if got, err := ParseAdapterKey(text); (err == nil) != ok || ok && got != k {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestKeysOfWireGuard(t *testing.T) {
	octets := func(n int, last byte) string {
		b := make([]byte, n)
		b[n-1] = last
		return base64.StdEncoding.EncodeToString(b)
	}
	key := octets(32, 1)
	for text, want := range map[string]bool{
		key: true, "": false, "x": false, octets(32, 0): false, octets(31, 1): false, octets(33, 1): false, octets(3, 1): false,
		// what a decoder would accept too, and wg(8) does not write
		key + "\n": false, key[:20] + "\r\n" + key[20:]: false, strings.TrimSuffix(key, "="): false,
		strings.TrimSuffix(key, "E=") + "F=": false,
	} {
		if got := IsWireGuardKey(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// hostile are the bytes that would end a word in a config file, a rule or a command line.
const hostile = " \t\r\n\x00;,#'\"\\/$`|&<>(){}[]*?!=@:%~^+"

func FuzzHostname(f *testing.F) {
	for _, s := range []string{"web", "a.b", "x" + hostile, "ä", strings.Repeat("a", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := ParseHostname(s)
		if err != nil {
			return
		}
		w := string(h)
		if strings.ContainsAny(w, hostile) || w != strings.ToLower(s) || len(w) > 253 || w == "." || w == ".." ||
			strings.HasPrefix(w, "-") {
			t.Errorf("%q became %q", s, w)
		}
		if again, err := ParseHostname(w); err != nil || again != h {
			t.Errorf("%q is not stable: %q, %v", w, again, err)
		}
	})
}

func FuzzIfName(f *testing.F) {
	for _, s := range []string{"eth0", "..", "x" + hostile, "0123456789abcdef"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseIfName(s)
		if err == nil && (strings.ContainsAny(string(n), hostile) || len(n) > 15 || string(n) != s || s == "." || s == "..") {
			t.Errorf("%q became %q", s, n)
		}
	})
}
