package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Reply is the answer to a call.
type Reply struct {
	Status   int
	Kind     string // content type; "" is JSON
	Body     []byte
	ETag     string
	Header   []Field
	Secret   bool   // may contain secrets
	Lively   bool   // changes without its ETag: never "not modified"
	Kept     bool   // the body is sent to other callers too: its compressed form is cached
	Revision uint64 // the revision that the call wrote

	Stream func(context.Context, io.Writer) error // lines or events, instead of a body
	Events bool                                   // Stream writes events
	Live   bool                                   // what Stream writes reaches the reader at once
	Done   func()                                 // releases resources; may be nil
}

// Field is one line of a header.
type Field struct{ Name, Value string }

// Add adds a line to the header of an answer.
func (r *Reply) Add(name, value string) { r.Header = append(r.Header, Field{name, value}) }

// JSON encodes a value without escaping <, > and &, and without a final newline.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// UnlessMatched returns the reply, or "not modified" if an If-None-Match contains its ETag.
func (r Reply) UnlessMatched(noneMatch []string) Reply {
	if r.ETag != "" && len(noneMatch) > 0 && NoneMatch(noneMatch, r.ETag) {
		r.Status, r.Body = http.StatusNotModified, nil
	}
	return r
}

// head writes the header, and returns the body as it will be sent.
func (f *Frame) head(w http.ResponseWriter, c *Call, r Reply) []byte {
	h, body := w.Header(), r.Body
	set := func(name, value string) { h[name] = []string{value} } // names are in net/http's canonical form
	set("X-Content-Type-Options", "nosniff")
	set("Cache-Control", "private, no-cache")
	if r.Secret {
		set("Cache-Control", "no-store")
	}
	if r.ETag != "" {
		set("Etag", r.ETag)
	}
	for _, one := range r.Header {
		h.Add(one.Name, one.Value)
	}
	switch {
	case r.Events:
		set("Content-Type", EventStream)
		set("X-Accel-Buffering", "no") // a proxy would buffer events
	case r.Stream != nil:
		set("Content-Type", r.Kind)
	case r.Status != http.StatusNotModified && r.Status != http.StatusNoContent:
		body = f.content(c, r, set)
	}
	w.WriteHeader(r.Status)
	return body
}

// content returns the body as it will be sent, and sets the headers that describe it.
func (f *Frame) content(c *Call, r Reply, set func(name, value string)) []byte {
	body := r.Body
	switch {
	case r.Kind != "":
		set("Content-Type", r.Kind)
	case len(body) > 0:
		set("Content-Type", "application/json")
	}
	if f.Zip && len(body) >= worthZipping {
		set("Vary", "Accept-Encoding")
		if acceptsZip(c.Request.Header["Accept-Encoding"]) {
			set("Content-Encoding", "gzip")
			body = f.zipped.of(body, r.Kept)
		}
	}
	set("Content-Length", strconv.Itoa(len(body)))
	return body
}
