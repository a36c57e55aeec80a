package api

import (
	"time"

	"edgespan/config/httpapi/nodeapi"
)

// SourceStatus is what `get config` shows: where the running config came from.
type SourceStatus struct {
	Source     string `json:"source"`
	Generation uint64 `json:"generation"`
	MD5        string `json:"md5"`
	FileDigest string `json:"fileDigest"`
	Error      string `json:"error"`
	// Journal is Journalled, or NotJournalled while changes are in memory only.
	Journal      string     `json:"journal"`
	JournalError string     `json:"journalError,omitempty"`
	JournalSince *time.Time `json:"journalSince,omitempty"`
	Unsaved      int        `json:"unsaved,omitempty"` // changes in memory only
	Found        []string   `json:"found,omitempty"`   // what this start found in the state folder
	Fallback     bool       `json:"fallback,omitempty"`
}

// source is the one resource of kind config: where the running config came from, and
// what is wrong with the file that is not it.
func (n *Reader) source() []nodeapi.Resource {
	s, _ := n.Topics.Source.Get("", "node")
	h, _ := n.Topics.Storage.Get("", "node")
	st := SourceStatus{
		Source: s.Source, Generation: s.Generation, MD5: s.MD5, FileDigest: s.FileDigest, Error: s.Error,
		Journal: Journalled, JournalError: h.Fault, Unsaved: h.Unsaved, Found: h.Notes, Fallback: s.Keep,
	}
	if h.Fault != "" {
		st.Journal, st.JournalSince = NotJournalled, &h.Since
	}
	return []nodeapi.Resource{{ID: "node", Kind: "config", Spec: map[string]any{}, Status: st}}
}
