package actors

import "edgespan/config/httpapi"

type sourceStatus struct {
	Source     string `json:"source"`
	Generation uint64 `json:"generation"`
	MD5        string `json:"md5"`
	FileDigest string `json:"fileDigest"`
	Error      string `json:"error"`
}

// source is the one resource of kind config: where the running config came from, and
// what is wrong with the file that is not it.
func (n *Node) source() []httpapi.Resource {
	s, _ := n.d.topics.Source.Get("", "node")
	st := sourceStatus{s.Source, s.Generation, s.MD5, s.FileDigest, s.Error}
	return []httpapi.Resource{{ID: "node", Kind: "config", Spec: map[string]any{}, Status: st}}
}
