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

// Reply is what a call is answered with.
type Reply struct {
	Status   int
	Kind     string // of the content; "" is JSON
	Body     []byte
	ETag     string
	Header   []Field
	Secret   bool   // secrets may be seen in it
	Lively   bool   // it changes without its ETag: it is never "not modified"
	Kept     bool   // others may be given the same body: it is worth to keep it compressed
	Revision uint64 // the revision that the call wrote

	Stream func(context.Context, io.Writer) error // lines or events, in the place of a body
	Events bool                                   // the stream is of events
	Done   func()                                 // lets go of what the answer has; nil: of nothing
}

// Field is one line of a header.
type Field struct{ Name, Value string }

// Add puts a line into the header of an answer.
func (r *Reply) Add(name, value string) { r.Header = append(r.Header, Field{name, value}) }

// JSON is a value as JSON, with <, > and & as they are, and without an end of line.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Unless is a reply, or "not modified" where an If-None-Match names what there is.
func (r Reply) Unless(noneMatch []string) Reply {
	if r.ETag != "" && len(noneMatch) > 0 && NoneMatch(noneMatch, r.ETag) {
		r.Status, r.Body = http.StatusNotModified, nil
	}
	return r
}

// head writes what stands before the body, and gives that as it goes out.
func (f *Frame) head(w http.ResponseWriter, c *Call, r Reply) []byte {
	h, body := w.Header(), r.Body
	set := func(name, value string) { h[name] = []string{value} } // of names as net/http spells them
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
		set("X-Accel-Buffering", "no") // a proxy would hold events back
	case r.Stream != nil:
		set("Content-Type", r.Kind)
	case r.Status != http.StatusNotModified && r.Status != http.StatusNoContent:
		body = f.content(c, r, set)
	}
	w.WriteHeader(r.Status)
	return body
}

// content is the body as it goes out, with what is said of it.
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
		if zips(c.Request.Header["Accept-Encoding"]) {
			set("Content-Encoding", "gzip")
			body = f.zipped.of(body, r.Kept)
		}
	}
	set("Content-Length", strconv.Itoa(len(body)))
	return body
}
