package api

import (
	"edgespan/config/httpapi/nodeapi"
)

// source returns the one resource of kind config: where the current config came from, and what is wrong with the config
// file if that was refused.
func (n *Reader) source() []nodeapi.Resource {
	s, _ := n.Topics.Source.Get("", "node")
	h, _ := n.Topics.Storage.Get("", "node")
	st := nodeapi.SourceStatus{
		Source: s.Source, Generation: s.Generation, MD5: s.MD5, FileDigest: s.FileDigest, Error: s.Error,
		Journal: Journalled, JournalError: h.Fault, Unsaved: h.Unsaved, Found: h.Notes, Fallback: s.Keep,
	}
	if h.Fault != "" {
		st.Journal, st.JournalSince = NotJournalled, &h.Since
	}
	return []nodeapi.Resource{{ID: "node", Kind: "config", Spec: map[string]any{}, Status: st}}
}
