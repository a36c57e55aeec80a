package fleetapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
	overridepkg "edgespan/config/layers/override"
)

// reply is what a call is answered with.
type reply struct {
	status   int
	body     []byte
	problem  bool
	etag     string
	lively   bool // the document changes without its ETag: it is never "not modified"
	digest   string
	revision uint64 // that the call wrote
	header   map[string]string
	stream   func(context.Context, io.Writer) error // lines or events, in the place of a body
	events   bool                                   // the stream is of events
	done     func()                                 // lets go of what the answer has; nil: of nothing
}

// give is a value as the answer.
func give(v any) (reply, error) {
	body, err := encode(filled(reflect.ValueOf(v)).Interface())
	return reply{body: body}, err
}

// giveDocument is a document as the answer: its canonical form, so that what is not masked has
// its digest. One with a history is told apart by its revision, else by its digest.
func giveDocument(d ops.Document, hasHistory bool) (reply, error) {
	if d.Object == nil {
		d.Object = config.Object{}
	}
	r := reply{body: config.AppendCanonical(nil, d.Object), digest: d.Digest}
	switch {
	case hasHistory:
		r.etag = revisionTag(d.Revision)
	case d.Digest != "":
		r.etag = `"` + d.Digest + `"`
	}
	return r, nil
}

// revisionTag is the ETag of what was written last by a revision.
func revisionTag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

// settle gives an answer the status of its row, or "not modified".
func (r reply) settle(c *call) reply {
	r.status = c.row.status
	if r.etag != "" && !r.lively && c.row.effect == reads && rest.NoneMatch(c.Header.Values("If-None-Match"), r.etag) {
		r.status, r.body = http.StatusNotModified, nil
	}
	if c.entry.Reveal {
		r.set("Cache-Control", "no-store")
	}
	return r
}

func (r *reply) set(key, value string) {
	if r.header == nil {
		r.header = map[string]string{}
	}
	r.header[key] = value
}

// kind is the type of the content.
func (r reply) kind() string {
	switch {
	case r.problem:
		return "application/problem+json"
	case r.events:
		return rest.EventStream
	case r.stream != nil:
		return lines
	}
	return "application/json"
}

// lines is the type of an answer that is a line of JSON after the other.
const lines = "application/jsonl"

// computed is the answer of a call that has its room until it is read: a call that reads has had its turn till then.
// What a caller asks for at once is so made one after the other, and none of it waits, made, for room.
func (a *api) computed(w http.ResponseWriter, c *call) reply {
	defer func() {
		if c.turn != nil {
			c.turn.End()
		}
	}()
	return a.budgeted(c, a.answer(w, c))
}

// takeTurn takes the turn of a call that reads, whatever it reads, and keeps it. A stream is no answer that is made
// and then given, and what changes something may wait long for others: each takes its turn for what it computes.
func (c *call) takeTurn() error {
	if c.turn == nil || c.row.effect != reads || c.row.events || c.row.lines {
		return nil
	}
	c.turn.Keep()
	done, err := rest.Turn(c.Context())
	if err == nil {
		done() // it is kept
	}
	return err
}

// budgeted is an answer, if there is room for it until it is read: who does not read holds what others need.
func (a *api) budgeted(c *call, r reply) reply {
	if c.caller.Role == "" || r.stream != nil || c.Method == http.MethodHead {
		return r
	}
	give, room := a.answers.Take(c.caller.Holder(), len(r.body))
	if !room {
		what := "too many answers are on their way at once"
		if c.row.effect != reads && r.status < http.StatusBadRequest {
			what += "; what was asked is done"
		}
		no := refused(problem(TypeBusy, "%s", what))
		no.revision = r.revision
		return no
	}
	c.give = give
	return r
}

// deliver writes an answer that is no stream. One that has no room of its own says no, or is anybody's.
func (a *api) deliver(w http.ResponseWriter, asked *http.Request, c *call, r reply) {
	refusal := c.give == nil
	if refusal {
		who := ""
		if c.caller.Role != "" {
			who = c.caller.Who()
		}
		give, room := a.answers.Refuse(asked.Context(), who)
		if !room {
			panic(http.ErrAbortHandler)
		}
		c.give = give
	}
	defer c.give()
	r.head(w)
	if asked.Method != http.MethodHead {
		c.holds.Give()
		*c = call{caller: c.caller, give: c.give} // what was asked is not held while its answer waits
		a.answers.Write(w, asked, r.body, refusal)
	}
}

// head writes what stands before the body.
func (r reply) head(w http.ResponseWriter) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "private, no-cache")
	for k, v := range r.header {
		h.Set(k, v)
	}
	if r.etag != "" {
		h.Set("ETag", r.etag)
	}
	if r.digest != "" {
		h.Set(DigestHeader, r.digest)
	}
	if r.status != http.StatusNotModified {
		h.Set("Content-Type", r.kind())
		if r.stream == nil {
			h.Set("Content-Length", strconv.Itoa(len(r.body)))
		}
	}
	w.WriteHeader(r.status)
}

// refused is a problem as the answer.
func refused(p *Problem) reply {
	body, err := encode(p)
	if err != nil {
		body = []byte(`{}`) // it is made of texts and numbers
	}
	r := reply{status: p.Status, body: body, problem: true}
	if p.retry > 0 {
		r.set("Retry-After", strconv.Itoa(int(math.Ceil(p.retry.Seconds()))))
	}
	if len(p.allow) > 0 {
		r.set("Allow", strings.Join(p.allow, ", "))
	}
	if p.Status == http.StatusUnauthorized {
		r.set("WWW-Authenticate", `Bearer realm="edgespan"`)
	}
	return r
}

// problem is one of a type.
func problem(kind, format string, args ...any) *Problem {
	p := &Problem{Type: kind, Title: kinds[kind].title, Status: kinds[kind].status, Detail: fmt.Sprintf(format, args...)}
	if kind == TypeBusy {
		p.retry = time.Second
	}
	return p
}

// faulty is a problem with faults.
func faulty(kind, detail string, faults []ProblemFault) *Problem {
	if len(faults) != 1 {
		detail += fmt.Sprintf(": %d faults", len(faults))
	}
	if shown := few(faults); shown < len(faults) {
		detail += fmt.Sprintf(", of which here are %d", shown)
		faults = faults[:shown]
	}
	p := problem(kind, "%s", detail)
	p.Errors = faults
	return p
}

// What one problem lists: faults, and names of nodes in all of them.
const (
	maxFaults     = 1000
	maxFaultNodes = 50_000
)

// few is how many faults a problem has: the first, and as many as that allows.
func few(faults []ProblemFault) int {
	nodes := 0
	for i, f := range faults {
		if nodes += len(f.Nodes); i == maxFaults || i > 0 && nodes > maxFaultNodes {
			return i
		}
	}
	return len(faults)
}

func internal() *Problem {
	return problem(TypeInternal, "the controller has failed at this; its log says why")
}

func tooMany(wait time.Duration) *Problem {
	p := problem(TypeTooMany, "too many requests: wait %d s", int(math.Ceil(wait.Seconds())))
	p.retry = wait
	return p
}

// problemOf turns a backend's error into a problem. What it does not know is for the log only:
// it may speak of more than the caller may see.
func (a *api) problemOf(c *call, err error) *Problem {
	var p *Problem
	var editFaults overridepkg.Faults
	var refusal *ops.Refused
	var faults config.Faults
	var conflicts history.Conflicts
	var conflict history.Conflict
	var many *TooManyError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &refusal):
		return faulty(TypeRejected, "the request is refused", editErrors(refusal.Faults))
	case errors.As(err, &editFaults):
		return faulty(TypeRejected, "the request is refused", editErrors(editFaults))
	case errors.As(err, &faults):
		return faulty(TypeRejected, "the request is refused", documentErrors(faults))
	case errors.As(err, &conflicts):
		return lost(conflicts)
	case errors.As(err, &conflict):
		return lost(history.Conflicts{conflict})
	case errors.As(err, new(*ops.NotFoundError)), errors.As(err, new(*history.NoRevisionError)):
		return problem(TypeNotFound, "%s", err)
	case errors.As(err, new(*ops.TooLargeError)):
		return problem(TypeTooLarge, "%s", err)
	case errors.As(err, &many):
		p = problem(TypeTooMany, "%s", err)
		p.retry = many.Wait
		return p
	case errors.Is(err, rest.ErrCrowded):
		return problem(TypeBusy, "%s", err)
	case errors.Is(err, ErrRefused):
		return problem(TypeConflict, "%s", err)
	case errors.Is(err, ErrRole):
		return problem(TypePermission, "%s", err)
	case errors.Is(err, ErrBusy):
		return problem(TypeBusy, "%s", err)
	case errors.Is(err, ErrNoToken):
		return problem(TypeNoToken, "%s", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return problem(TypeTimeout, "%s %s: no answer in time", c.Method, c.row.path)
	}
	a.failed(c.Method, c.entry.Path, err)
	return internal()
}

// lost names who was faster, and when.
func lost(cs history.Conflicts) *Problem {
	faults := make([]ProblemFault, len(cs))
	for i, one := range cs {
		faults[i] = ProblemFault{Layer: one.Layer.String(), Detail: one.Error()}
	}
	p := problem(TypePrecondition, "%s", cs.Error())
	p.Errors = faults
	return p
}

func editErrors(fs overridepkg.Faults) []ProblemFault {
	out := make([]ProblemFault, len(fs))
	for i, f := range fs {
		out[i] = ProblemFault{Path: config.FormatPath(f.Path), Nodes: f.Nodes, Layer: f.Layer, Rule: f.Rule, Detail: f.What,
			Allowed: f.Allowed}
	}
	return out
}

func documentErrors(fs config.Faults) []ProblemFault {
	out := make([]ProblemFault, len(fs))
	for i, f := range fs {
		out[i] = ProblemFault{Path: config.FormatPath(f.Path), Detail: f.What, Allowed: f.Allowed}
	}
	return out
}

var (
	marshals = reflect.TypeFor[json.Marshaler]()
	anything = reflect.TypeFor[any]()
)

// filled is a value whose lists and maps are there, if empty: a reader of JSON meets [] and {},
// never null. The value itself stays as it is: it may be somebody else's.
func filled(v reflect.Value) reflect.Value {
	if v.Type().Implements(marshals) || v.Type() == anObject {
		if v.Type() == anObject && v.IsNil() {
			return reflect.ValueOf(config.Object{})
		}
		return v
	}
	switch v.Kind() {
	case reflect.Slice:
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(filled(v.Index(i)))
		}
		return out
	case reflect.Map:
		out := reflect.MakeMapWithSize(v.Type(), v.Len())
		for it := v.MapRange(); it.Next(); {
			out.SetMapIndex(it.Key(), filled(it.Value()))
		}
		return out
	case reflect.Struct:
		out := reflect.New(v.Type()).Elem()
		out.Set(v)
		for i := range v.NumField() {
			t := v.Type().Field(i)
			if absent := v.Field(i).IsZero() && strings.Contains(t.Tag.Get("json"), ",omitzero"); t.IsExported() &&
				t.Type != anything && !absent {
				out.Field(i).Set(filled(v.Field(i)))
			}
		}
		return out
	default:
		return v
	}
}
