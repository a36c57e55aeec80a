package configdbapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// The headers that tell of an answer what its body can't: clients know that.
const (
	VersionHeader  = "X-ConfigDB-Version"  // of the values at exactly the level that was asked for
	RevisionHeader = "X-ConfigDB-Revision" // of the facts
)

// reply is what a call is answered with.
type reply struct {
	status   int
	body     []byte
	kept     bool // others may be given the same body: it is worth to keep it compressed
	etag     string
	version  uint64
	revision uint64 // that the answer was read at, or that the call wrote
	wrote    uint64 // that the call wrote
	secret   bool   // secrets may be seen in it
	location string
	applied  bool // Prefer: return=representation
	allow    []string
	retry    time.Duration
	who      []string // challenges
	stream   func(io.Writer)
	done     func() // lets go of what the answer has; nil: of nothing
}

// give is a value as the answer.
func give(v any) (reply, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return reply{}, err
	}
	return reply{body: bytes.TrimSuffix(b.Bytes(), []byte("\n"))}, nil
}

// giveAnswer is what a query found. What an admin or the node itself reads may have secrets in it.
func (c *call) giveAnswer(answer model.Answer) reply {
	return reply{
		body: answer.Body, kept: true, etag: answer.ETag, version: answer.Version, revision: answer.Revision,
		secret: answer.Secret && c.reveals(),
	}
}

// settle gives an answer the status of its row, or "not modified".
func (r reply) settle(c *call) reply {
	if r.status == 0 {
		r.status = c.row.status
	}
	if r.etag != "" && c.row.method == http.MethodGet && len(c.Header["If-None-Match"]) > 0 &&
		rest.NoneMatch(c.Header["If-None-Match"], r.etag) {
		r.status, r.body = http.StatusNotModified, nil
	}
	return r
}

func (a *api) write(asked *http.Request, c *call, r reply) {
	refusal := false
	if c.give == nil && r.stream == nil {
		who := ""
		if c.caller.Name != "" {
			who = c.who()
		}
		give, room := a.answers.Refuse(asked.Context(), who)
		if !room {
			panic(http.ErrAbortHandler)
		}
		c.give, refusal = give, true
	}
	if c.give != nil {
		defer c.give()
	}
	h := c.w.Header()
	set := func(name, value string) {
		if value != "" {
			h[name] = []string{value}
		}
	}
	set("X-Content-Type-Options", "nosniff")
	set("Cache-Control", "private, no-cache")
	if r.secret {
		set("Cache-Control", "no-store")
	}
	set("Etag", r.etag) // as net/http spells ETag
	set("Location", r.location)
	set("Allow", strings.Join(r.allow, ", "))
	if len(r.who) > 0 {
		h["Www-Authenticate"] = r.who
	}
	if r.version > 0 {
		set("X-Configdb-Version", strconv.FormatUint(r.version, 10))
	}
	if r.revision > 0 {
		set("X-Configdb-Revision", strconv.FormatUint(r.revision, 10))
	}
	if r.applied {
		set("Preference-Applied", "return=representation")
	}
	if r.retry > 0 {
		set("Retry-After", strconv.Itoa(int(math.Ceil(r.retry.Seconds()))))
	}
	body := r.body
	switch {
	case r.stream != nil:
		set("Content-Type", rest.EventStream)
		set("X-Accel-Buffering", "no") // a proxy would hold events back
	case r.status != http.StatusNotModified && r.status != http.StatusNoContent:
		body = a.content(c, r, set)
	}
	c.w.WriteHeader(r.status)
	if c.Method != http.MethodHead && r.stream == nil {
		c.holds.Give()
		*c = call{w: c.w, caller: c.caller, give: c.give} // what was asked is not held while its answer waits
		a.answers.Write(c.w, asked, body, refusal)
	}
}

// content is the body as it goes out, with what is said of it.
func (a *api) content(c *call, r reply, set func(name, value string)) []byte {
	body := r.body
	if len(body) > 0 {
		set("Content-Type", "application/json")
	}
	if len(body) >= worthZipping {
		set("Vary", "Accept-Encoding")
		if zips(c.Header["Accept-Encoding"]) {
			set("Content-Encoding", "gzip")
			body = a.zipped.of(body, r.kept)
		}
	}
	set("Content-Length", strconv.Itoa(len(body)))
	return body
}

// refusal is why a request is not done, with what goes with its status.
type refusal struct {
	status int
	text   string
	allow  []string
	retry  time.Duration
	who    []string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// Message is the body of every error.
type Message struct {
	Msg string `json:"msg"`
}

// refused is an error as the answer.
func (a *api) refused(c *call, err error) reply {
	r := a.refusalOf(c, err)
	out, err := give(Message{r.text})
	if err != nil {
		out = reply{body: []byte(`{"msg":""}`)} // never: it is one text
	}
	out.status, out.allow, out.retry, out.who = r.status, r.allow, r.retry, r.who
	return out
}

// statuses are those of the ledger's faults.
var statuses = map[model.FaultKind]int{
	model.Invalid: http.StatusBadRequest, model.NotFound: http.StatusNotFound, model.Conflict: http.StatusConflict,
	model.Stale: http.StatusPreconditionFailed, model.TooLarge: http.StatusRequestEntityTooLarge,
	model.Busy: http.StatusServiceUnavailable,
}

// refusalOf says what a caller is told of an error. What it does not know is for the log only: it
// may speak of more than the caller may see.
func (a *api) refusalOf(c *call, err error) *refusal {
	var r *refusal
	var denied *Denied
	var fault *model.Fault
	var document *configdb.Error
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &denied):
		r := &refusal{status: denied.Status, text: denied.Text, retry: denied.Wait}
		if r.status == http.StatusUnauthorized {
			r.who = a.auth.Challenges()
		}
		return r
	case errors.As(err, &fault):
		r := &refusal{status: statuses[fault.Kind], text: fault.Text}
		if fault.Kind == model.Busy {
			r.retry = time.Second
		}
		return r
	case errors.As(err, &document):
		switch document.Kind {
		case configdb.Malformed:
			return &refusal{status: http.StatusBadRequest, text: document.Text}
		case configdb.TooLarge:
			return &refusal{status: http.StatusRequestEntityTooLarge, text: document.Text}
		}
		return &refusal{status: http.StatusConflict, text: document.Text}
	case errors.Is(err, rest.ErrCrowded):
		return &refusal{status: http.StatusServiceUnavailable, retry: time.Second, text: err.Error()}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &refusal{status: http.StatusGatewayTimeout, text: "no answer in time"}
	}
	a.failed(c.Method, c.entry.Path, err)
	return &refusal{status: http.StatusInternalServerError, text: "the controller has failed at this; its log says why"}
}
