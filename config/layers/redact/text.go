package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Mark replaces a secret in a text.
const Mark = "[redacted]"

// Text returns whole lines without their secrets.
func (r *Redactor) Text(text []byte) []byte {
	s := string(text)
	if len(r.secrets) > 0 {
		s = r.replacer().Replace(s)
	}
	s = maskKeys(s)
	var out strings.Builder
	out.Grow(len(s))
	for line := range strings.Lines(s) {
		out.WriteString(maskForms(line))
	}
	return []byte(out.String())
}

// maskForms masks the usual forms of secrets in one line. Few lines have any, and a search for words is much cheaper
// than one for forms.
func maskForms(line string) string {
	lower := strings.ToLower(line)
	for _, p := range patterns {
		if slices.ContainsFunc(p.hints, func(hint string) bool { return strings.Contains(lower, hint) }) {
			line = p.form.ReplaceAllString(line, p.with)
		}
	}
	return line
}

// keyBlock is a private key in PEM, with real or escaped line ends; without an end line it goes on to the end of the
// text.
var keyBlock = regexp.MustCompile(
	`(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----).*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)`)

// keyEnd is the end line of one.
var keyEnd = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)

// maskKeys masks private keys. A text may begin within one: then everything up to its end line goes.
func maskKeys(s string) string {
	end := keyEnd.FindStringIndex(s)
	if begin := keyBlock.FindStringIndex(s); end != nil && (begin == nil || begin[0] > end[0]) {
		s = Mark + s[end[1]:]
	}
	return keyBlock.ReplaceAllString(s, "${1}"+Mark)
}

// words are the names of secrets in texts.
const words = `(?:password|passwd|passphrase|passcode|pwd|secret|token|psk|shared[_-]?key|private[_-]?key|` +
	`api[_-]?key|access[_-]?key|signing[_-]?key|master[_-]?key|credentials?)`

// value is the value behind such a name: a quoted text, with escaped quotes or not, or a word.
const value = `(?:\\?"(?:[^"\\]|\\[^"])*\\?"|'[^']*'|[^\s"',;&\\{}[\]][^\s"',;&\\}\]]*)`

// hints are parts of words, one of which is in each text with words.
var hints = []string{"pass", "pwd", "secret", "token", "psk", "key", "credential"}

// patterns are the usual forms of secrets that nothing declares.
var patterns = []struct {
	form  *regexp.Regexp
	with  string
	hints []string // one of them is in each line that matches, in lower case
}{
	// The user and password of a URL.
	{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*:(?://|\\/\\/))[^\s/"'<>\\]+@`), "${1}" + Mark + "@", []string{"@"}},
	// Join and operator tokens (platform/pki) and what a JSON Web Token begins with.
	{regexp.MustCompile(`\bes[jo]_[A-Za-z0-9_-]{8,}`), Mark, []string{"esj_", "eso_"}},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.?[A-Za-z0-9_-]*`), Mark, []string{"eyj"}},
	// Headers of HTTP: everything up to the end of the line or of its quotes.
	{regexp.MustCompile(`(?i)((?:authorization|cookie|x-api-key|x-auth-token)\\?["']?\s*[:=]\s*\[?\\?["']?)[^"'\\\r\n]+`),
		"${1}" + Mark, []string{"authorization", "cookie", "x-api-key", "x-auth-token"}},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/_=.~-]{8,}`), "${1} " + Mark, []string{"bearer", "basic"}},
	// Tokens of well-known services, and PEM in base64.
	{regexp.MustCompile(`\b(?:gh[opsur]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|` +
		`AKIA[0-9A-Z]{16})`), Mark, []string{"ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "xox", "akia"}},
	{regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/_=-]+`), Mark, []string{"ls0tls1crudjti"}},
	// Parameters of URLs, and lines of ipsec.secrets.
	{regexp.MustCompile(`(?i)([?&](?:key|sig|signature|auth|code|pass|hmac|x-amz-[a-z-]+)=)[^&\s"'<>\\]+`), "${1}" + Mark,
		[]string{"?", "&"}},
	{regexp.MustCompile(`(?i)(:\s*(?:psk|eap|xauth|ntlm|pkcs12|rsa\s+\S+|ecdsa\s+\S+)\s+)` + value), "${1}" + Mark,
		[]string{"psk", "eap", "xauth", "ntlm", "pkcs12", "rsa", "ecdsa"}},
	// NAME=VALUE, "name": "value", --name VALUE, "--name","VALUE", "name":"NAME","value":"VALUE"; a file's name is no
	// secret.
	{regexp.MustCompile(`(?i)(\b[a-z0-9_.-]*` + words + `\\?["']?\s*[=:]\s*)` + value), "${1}" + Mark, hints},
	{regexp.MustCompile(`(?i)(\b(?:[a-z0-9]+[_.-])*pass\\?["']?\s*[=:]\s*)` + value), "${1}" + Mark, []string{"pass"}},
	{regexp.MustCompile(`(?i)(--[a-z0-9-]*` + words + `(?:\s+|\\?",\s*))` + value), "${1}" + Mark, hints},
	{regexp.MustCompile(`(?i)(` + words + `\\?",\s*\\?"value\\?":\s*)` + value), "${1}" + Mark, hints},
}

// forms returns the forms in which a secret may appear in a text.
func forms(s string) []string {
	out := []string{s, url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s), hex.EncodeToString([]byte(s)),
		strings.ToUpper(hex.EncodeToString([]byte(s)))}
	for _, text := range quoted(s) {
		out = append(append(out, text), quoted(text)...) // JSON, also in a line of the log, which is JSON too
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		out = append(out, enc.EncodeToString([]byte(s)))
		for shift := range 3 {
			if part := within(enc, s, shift); len(part) >= minEncoded {
				out = append(out, part)
			}
		}
	}
	return out
}

// quoted returns the ways in which Go and JSON quote a text, without the quotes.
func quoted(s string) []string {
	var out []string
	for _, html := range []bool{true, false} {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		if e.Encode(s) == nil { // a string has no error
			out = append(out, strings.TrimSuffix(b.String(), "\n"))
		}
	}
	out = append(out, strconv.Quote(s), strconv.QuoteToASCII(s))
	for i := range out {
		out[i] = out[i][1 : len(out[i])-1]
	}
	return out
}

// minEncoded is the length of the shortest part of base64 that is replaced.
const minEncoded = 6

// within returns the part of the base64 of any text that contains a secret, at this offset modulo 3, which depends on
// the secret alone.
func within(enc *base64.Encoding, s string, shift int) string {
	whole := enc.WithPadding(base64.NoPadding).EncodeToString([]byte("xxx"[:shift] + s))
	first := (shift*8 + 5) / 6
	last := (shift + len(s)) * 8 / 6
	return whole[min(first, last):last]
}
