package model

import (
	"bytes"

	"edgespan/config/configdb"
)

// noteUnmasked records whether the document of a blind write has a value other than a mask in place of a secret.
func (wc *writeCheck) noteUnmasked(to *subject, v configdb.JSON) error {
	secrets := to.definition.secrets()
	if !wc.blind || wc.guessed || len(secrets) == 0 {
		return nil
	}
	masked, err := wc.m.Mask(v, secrets)
	wc.guessed = err == nil && !bytes.Equal(masked, v)
	return documentError(err, secrets)
}

// checkGuessKeys is noteUnmasked for a keys operation, applied to the document as the caller may see it. An operation
// that fails there has a path into a secret.
func (wc *writeCheck) checkGuessKeys(to *subject, edit configdb.KeysEdit, doc configdb.JSON) error {
	secrets := to.definition.secrets()
	if !wc.blind || len(secrets) == 0 {
		return nil
	}
	masked, err := wc.m.Mask(doc, secrets)
	if err != nil {
		return documentError(err, secrets)
	}
	next, err := wc.m.Apply(edit, masked)
	if configdb.IsTooLarge(err) {
		return documentError(err, secrets)
	}
	if err != nil {
		wc.guessed = true
		return nil
	}
	return wc.noteUnmasked(to, next)
}

// hide removes digests from the result of a blind write: equal digests in a history would reveal a correct guess.
func (wc *writeCheck) hide() {
	wc.written.ETag = ""
	for i := range wc.written.Changes {
		wc.written.Changes[i].SHA256 = ""
	}
}
