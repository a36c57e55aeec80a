package model

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
)

// Key makes digests that nobody can guess a content by who has not the key: ETags and digests are shown to those who
// may not see the secrets in it. All replicas have the same. Without one digests are those of the content.
type Key []byte

func (k Key) hash() hash.Hash {
	if len(k) == 0 {
		return sha256.New()
	}
	return hmac.New(sha256.New, k)
}

// digest is what is shown for the SHA-256 of a content.
func (k Key) digest(sha string) string {
	if sha == "" || len(k) == 0 {
		return sha
	}
	h := k.hash()
	h.Write([]byte("content " + sha))
	return hex.EncodeToString(h.Sum(nil))
}

// quoted is an ETag of what an answer is made of.
func (k Key) quoted(text string) string {
	h := k.hash()
	h.Write([]byte(text))
	return `"` + hex.EncodeToString(h.Sum(nil)[:16]) + `"`
}

// rawETag names one version of a half, for one who may not see the secrets.
func (k Key) rawETag(kind Kind, h half, secrets []string) string {
	text := fmt.Sprintf("raw %s %d %s", kind, h.N, h.SHA)
	if len(secrets) > 0 {
		text += " without " + string(encode(secrets))
	}
	return k.quoted(text)
}

// Show is a record as others see it.
func (k Key) Show(r Record) Record {
	r.Changes = k.Changes(r.Changes)
	return r
}

// Changes are changes as others see them.
func (k Key) Changes(changes []Change) []Change {
	if len(k) == 0 {
		return changes
	}
	changes = slices.Clone(changes)
	for i := range changes {
		changes[i].SHA256 = k.digest(changes[i].SHA256)
	}
	return changes
}

// Keyed is the state with the key of its digests, as are all that follow from it.
func (s *State) Keyed(k Key) *State {
	next := *s
	next.key = k
	return &next
}
