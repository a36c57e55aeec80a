package model

import (
	"bytes"

	"edgespan/config/configdb"
)

// noteUnmasked records whether the document of a blind write has a value other than a mask in place of a secret.
func (j *writeCheck) noteUnmasked(to *subject, v configdb.JSON) error {
	secrets := to.definition.secrets()
	if !j.blind || j.guessed || len(secrets) == 0 {
		return nil
	}
	masked, err := j.m.Mask(v, secrets)
	j.guessed = err == nil && !bytes.Equal(masked, v)
	return ofDocument(err, secrets)
}

// guessKeys is guess for a keys operation, applied to the document as the caller may see it. An operation that fails
// there has a path into a secret.
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
	return j.noteUnmasked(to, next)
}

// hide removes digests from the result of a blind write: equal digests in a history would reveal a correct guess.
func (j *writeCheck) hide() {
	j.written.ETag = ""
	for i := range j.written.Changes {
		j.written.Changes[i].SHA256 = ""
	}
}
