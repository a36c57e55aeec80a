package metadata

import (
	"strings"
	"testing"
)

// Patterns are ECMAScript's over bytes, matched as a whole (reference §1.10).
func TestRegexesAreECMAScripts(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{`.{8,63}`, []string{"12345678", "éééé", strings.Repeat("x", 63)},
			[]string{"1234567", "ééé", strings.Repeat("x", 64), "1234\n5678", "1234\r5678"}},
		{`.{8,63}`, []string{"ab\u2028cdef"}, nil}, // three bytes as any
		{`a|ab`, []string{"a", "ab"}, []string{"abc", "b"}},
		{`|^a$`, []string{"", "a"}, []string{"aa", "a\n"}},
		{`[^]]+`, []string{"x]", "]]]"}, []string{"x", "xy", "]"}},
		{`[]|x`, []string{"x"}, []string{"", "]"}},
		{`[^\]]+`, []string{"xy"}, []string{"x]"}},
		{`[[]+`, []string{"[", "[["}, []string{"]"}},
		{`[[:digit:]x]+`, []string{"1x2"}, []string{"a"}},
		{`\s\S`, []string{"\vx", " x", "\té"[:2]}, []string{"x ", "  "}},
		{`[\Sx]`, []string{"y"}, []string{"\v", " "}},
		{`[\s\S]+`, []string{"a \v\n"}, []string{""}},
		{`[^\s;]+`, []string{"ab"}, []string{"a\vb", "a;b"}},
		{`\u0041\x42\cJ`, []string{"AB\n"}, []string{"u0041"}},
		{`\d\.\/\-\_`, []string{"1./-_"}, []string{"1x/-_"}},
		{`é+`, []string{"é"}, []string{"e"}},
		{`(inproc://(.{1,256}))|(ipc://(.{1,107}))`, []string{"ipc:///tmp/x", "ipc://" + strings.Repeat("x", 107)},
			[]string{"ipc://", "ipc://" + strings.Repeat("x", 108)}},
		{`([^/]+)(/([0-9]{1,3}))(,([0-9]{1,3}))`, []string{"a::/56,64"}, []string{"a::/56", "/56,64"}},
	} {
		re, err := compileRegex(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		text := texts{regex: re}
		for _, s := range c.yes {
			if !text.has(s) {
				t.Errorf("%s does not match %q", c.pattern, s)
			}
		}
		for _, s := range c.no {
			if text.has(s) {
				t.Errorf("%s matches %q", c.pattern, s)
			}
		}
	}
}
