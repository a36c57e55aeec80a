package model

import (
	"bytes"

	"edgespan/config/configdb"
)

// guess notes that a document which a blind write brings has something else than a mask in the place of a secret.
func (j *writeCheck) guess(to *subject, v configdb.JSON) error {
	secrets := to.definition.secrets()
	if !j.blind || j.guessed || len(secrets) == 0 {
		return nil
	}
	masked, err := j.m.Mask(v, secrets)
	j.guessed = err == nil && !bytes.Equal(masked, v)
	return ofDocument(err, secrets)
}

// guessKeys is guess for a keys operation: done to what the caller may see of the document. One that fails there leads
// into a secret.
func (j *writeCheck) guessKeys(to *subject, edit configdb.KeysEdit, doc configdb.JSON) error {
	secrets := to.definition.secrets()
	if !j.blind || len(secrets) == 0 {
		return nil
	}
	masked, err := j.m.Mask(doc, secrets)
	if err != nil {
		return ofDocument(err, secrets)
	}
	next, err := j.m.Apply(edit, masked)
	if configdb.IsTooLarge(err) {
		return ofDocument(err, secrets)
	}
	if err != nil {
		j.guessed = true
		return nil
	}
	return j.guess(to, next)
}

// hide leaves digests out of what a blind write is answered with: those of a history show to what they would be equal.
func (j *writeCheck) hide() {
	j.written.ETag = ""
	for i := range j.written.Changes {
		j.written.Changes[i].SHA256 = ""
	}
}
