// Package redact owns the removal of secrets from what a person may pass on, such as a support archive: it masks values
// of documents by the metadata and by the names of their keys, and replaces known secrets and the usual forms of
// unknown ones in any text.
//
// It masks rather too much than too little: a value whose key the metadata does not describe is masked too. It never
// reads a file, and never returns a secret.
package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
)

// minSecret is the length of the shortest secret that is replaced in texts: shorter ones would match ordinary words.
// Documents mask them all the same.
const minSecret = 4

// maxSecrets bounds the secrets of one Redactor; a config of 4 MiB may have as many as it likes.
const maxSecrets = 4096

// Redactor removes secrets. The zero value knows no secret by its value, only the usual forms.
type Redactor struct {
	secrets map[string]bool
	left    int // secrets that found no room
	exact   *strings.Replacer
}

// Learn makes all texts within a value known as secrets.
func (r *Redactor) Learn(v any) {
	switch v := v.(type) {
	case string:
		r.learnText(v)
	case config.Object:
		for _, key := range config.Keys(v) {
			r.Learn(v[key])
		}
	case []any:
		for _, x := range v {
			r.Learn(x)
		}
	case bool, nil:
	default: // a number
		r.learnText(fmt.Sprint(v))
	}
}

// minLine is the length of the shortest line of a secret of several lines that is replaced by itself.
const minLine = 8

func (r *Redactor) learnText(s string) {
	if strings.Contains(s, "\n") { // a log has its lines one by one; those of PEM around a key say that it is one
		for line := range strings.Lines(s) {
			if line = strings.TrimSpace(line); len(line) >= minLine && !strings.HasPrefix(line, "-----") {
				r.learnLine(line)
			}
		}
	}
	r.learnLine(s)
}

func (r *Redactor) learnLine(s string) {
	if len(s) < minSecret || r.secrets[s] {
		return
	}
	if len(r.secrets) >= maxSecrets {
		r.left++
		return
	}
	if r.secrets == nil {
		r.secrets = map[string]bool{}
	}
	r.secrets[s], r.exact = true, nil
}

// Forgotten returns how many secrets found no room: texts that contain them must be left out.
func (r *Redactor) Forgotten() int { return r.left }

// Knows reports whether a text contains a secret that was learnt, in any of its forms.
func (r *Redactor) Knows(text string) bool { return r.replacer().Replace(text) != text }

// Document returns a config without its secrets, and learns them. Secret are values that the metadata declares so,
// values whose key has the name of a secret, and those that the metadata does not describe.
func (r *Redactor) Document(m *metadata.Metadata, doc config.Object) config.Object {
	return r.masked(m, nil, doc).(config.Object)
}

func (r *Redactor) masked(m *metadata.Metadata, path []string, v any) any {
	switch v := v.(type) {
	case config.Object:
		out := make(config.Object, len(v))
		for key, below := range v {
			at := append(slices.Clone(path), key)
			e, known := m.Entry(at)
			switch {
			case below == nil:
				out[key] = nil
			case known && e.Secret || IsSecretName(key):
				r.Learn(below)
				out[key] = override.Hidden()
			case !known && !isObject(below): // its text is not learnt: it may be an ordinary word
				out[key] = override.Hidden()
			default: // levels of the metadata have no entry of their own
				out[key] = r.masked(m, at, below)
			}
		}
		return out
	case []any:
		return r.Names(v)
	}
	return v
}

func isObject(v any) bool {
	_, ok := v.(config.Object)
	return ok
}

// Names returns a value with those values masked whose key has the name of a secret, and learns them.
func (r *Redactor) Names(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(config.Object, len(v))
		named := namesSecret(v)
		for key, below := range v {
			if out[key] = any(override.Hidden()); below == nil || !IsSecretName(key) && !(named && key == "value") {
				out[key] = r.Names(below)
			} else if !override.IsMasked(below) {
				r.Learn(below)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			if out[i] = r.Names(x); i > 0 && isSecretFlag(v[i-1]) {
				r.Learn(x)
				out[i] = override.Hidden()
			}
		}
		return out
	}
	return v
}

// namesSecret reports whether an object says by its name that its value is a secret.
func namesSecret(v map[string]any) bool {
	name, _ := v["name"].(string)
	key, _ := v["key"].(string)
	return IsSecretName(name) || IsSecretName(key)
}

// isSecretFlag reports whether a word of a command line says that the next one is a secret; a file's name is none.
func isSecretFlag(word any) bool {
	text, _ := word.(string)
	name := plainName(text)
	return strings.HasPrefix(text, "-") && !strings.ContainsAny(text, "= ") && IsSecretName(text) &&
		(strings.HasSuffix(name, "pass") ||
			slices.ContainsFunc(secretNames, func(end string) bool { return strings.HasSuffix(name, end) }))
}

// JSON returns a text of JSON values with those values masked whose key has the name of a secret, and learns them. The
// error says where the text stops to be JSON; what comes from there on is left out.
func (r *Redactor) JSON(text []byte) ([]byte, error) {
	var all []any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		var v any
		err := d.Decode(&v)
		if err == nil {
			all = append(all, r.Names(v))
			continue
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		out, encoding := encode(all)
		return out, errors.Join(err, encoding)
	}
}

// encode returns one value with indents, and several as one line each.
func encode(all []any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if len(all) == 1 {
		e.SetIndent("", "  ")
	}
	for _, v := range all {
		if err := e.Encode(v); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// secretNames are the parts of keys that name a secret, in lower case without separators.
var secretNames = []string{"password", "passwd", "passphrase", "passcode", "pwd", "secret", "token", "psk", "sharedkey",
	"privatekey", "apikey", "accesskey", "authkey", "encryptionkey", "signingkey", "masterkey", "credential",
	"authorization", "cookie"}

// IsSecretName reports whether a key has the name of a secret, or of an environment, which may hold some.
func IsSecretName(key string) bool {
	plain := plainName(key)
	switch {
	case plain == "env", plain == "environment", strings.HasSuffix(plain, "pass") && !strings.HasSuffix(plain, "bypass"):
		return true
	}
	return slices.ContainsFunc(secretNames, func(name string) bool { return strings.Contains(plain, name) })
}

func plainName(key string) string {
	return strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || c == '.' {
			return -1
		}
		return c
	}, strings.ToLower(key))
}

// replacer replaces the known secrets in all their forms, the longest first.
func (r *Redactor) replacer() *strings.Replacer {
	if r.exact != nil {
		return r.exact
	}
	var all []string
	for s := range r.secrets {
		all = append(all, forms(s)...)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(all))
	for _, s := range slices.Compact(all) {
		pairs = append(pairs, s, Mark)
	}
	r.exact = strings.NewReplacer(pairs...)
	return r.exact
}
