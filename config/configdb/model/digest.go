package model

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
)

// Key is the secret key of digests and ETags. Callers who may not see the secrets in a content can see its digest;
// without the key they can't confirm a guess of the content with it. All replicas have the same key. Without one,
// digests are those of the content.
type Key []byte

func (k Key) hash() hash.Hash {
	if len(k) == 0 {
		return sha256.New()
	}
	return hmac.New(sha256.New, k)
}

// digest returns the digest to show for the SHA-256 of a content.
func (k Key) digest(sha string) string {
	if sha == "" || len(k) == 0 {
		return sha
	}
	h := k.hash()
	h.Write([]byte("content " + sha))
	return hex.EncodeToString(h.Sum(nil))
}

// quoted returns an ETag for the description of an answer's inputs.
func (k Key) quoted(text string) string {
	h := k.hash()
	h.Write([]byte(text))
	return `"` + hex.EncodeToString(h.Sum(nil)[:16]) + `"`
}

// rawETag returns the ETag of one version of a half, for a caller for whom secrets are masked.
func (k Key) rawETag(kind Kind, h half, secrets []string) string {
	text := fmt.Sprintf("raw %s %d %s", kind, h.N, h.SHA)
	if len(secrets) > 0 {
		text += " without " + string(encode(secrets))
	}
	return k.quoted(text)
}

// Show returns a record with digests in place of the SHA-256 of contents.
func (k Key) Show(r Record) Record {
	r.Changes = k.Changes(r.Changes)
	return r
}

// Changes returns changes with digests in place of the SHA-256 of contents.
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

// WithKey returns the state with the key of its digests; all later states inherit the key.
func (s *State) WithKey(k Key) *State {
	next := *s
	next.key = k
	return &next
}
