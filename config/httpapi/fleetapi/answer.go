package fleetapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// reply is the answer to a call.
type reply = rest.Reply

// answer returns a value as a reply, or the error.
func answer[T any](v T, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	body, err := encode(fillEmpty(reflect.ValueOf(v)).Interface())
	return reply{Body: body}, err
}

// done answers a call that has no result.
func done(err error) (reply, error) { return answer(Nothing{}, err) }

// answerDocument answers with a document without a history: its ETag is its digest.
func answerDocument(d ops.DocumentAnswer, err error) (reply, error) {
	r, err := canonical(d, err)
	if d.Digest != "" {
		r.ETag = `"` + d.Digest + `"`
	}
	return r, err
}

// answerVersioned answers with a document with a history: its ETag is its revision.
func answerVersioned(d ops.DocumentAnswer, err error) (reply, error) {
	r, err := canonical(d, err)
	r.ETag = revisionTag(d.Revision)
	return r, err
}

// canonical answers with the canonical form of a document, so that the digest of an unmasked one matches.
func canonical(d ops.DocumentAnswer, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	if d.Object == nil {
		d.Object = config.Object{}
	}
	r := reply{Body: config.AppendCanonical(nil, d.Object)}
	if d.Digest != "" {
		r.Add(DigestHeader, d.Digest)
	}
	return r, nil
}

// revisionTag is the ETag of a document that this revision wrote last.
func revisionTag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

// finishReply sets the status of the route, or "not modified".
func finishReply(c *call, r reply) reply {
	r.Status = c.row.Status
	if c.row.Effect == rest.Reads && !r.Lively {
		r = r.UnlessMatched(c.Header.Values("If-None-Match"))
	}
	r.Secret = c.Entry.Reveal
	return r
}

// acquireTurn takes the turn of a call that reads, and keeps it until the answer is encoded. Streams and writes, which
// may wait long for others, take a turn for each computation instead.
func (c *call) acquireTurn() error {
	if c.Turn == nil || c.row.Effect != rest.Reads || c.row.Events || c.row.Lines {
		return nil
	}
	c.Turn.Hold()
	done, err := rest.AcquireTurn(c.Context())
	if err == nil {
		done() // Hold keeps it
	}
	return err
}

// Acted says that a write was done although its answer can't be sent.
func (a *api) Acted(c *rest.Call, r reply) string {
	if own(c).row.Effect != rest.Reads && r.Status < http.StatusBadRequest {
		return "; what was asked is done"
	}
	return ""
}

// Shown returns the reply: the audit line of a secret is written before the call is executed.
func (a *api) Shown(_ *rest.Call, r reply) reply { return r }

// Audited reports whether the call is an action or shows a secret.
func (a *api) Audited(c *rest.Call) bool { return own(c).row.Effect != rest.Reads || c.Entry.Reveal }

// Refused returns an error as a problem.
func (a *api) Refused(c *rest.Call, err error) reply {
	p := a.problemOf(c, err)
	if p.Status == http.StatusUnauthorized {
		p.Challenges = []string{`Bearer realm="edgespan"`}
	}
	body, err := encode(p)
	if err != nil {
		body = []byte(`{}`) // can't happen: a problem has only strings and numbers
	}
	return p.Reply("application/problem+json", body)
}

// faultsProblem is a problem with faults.
func faultsProblem(kind, detail string, faults []ProblemFault) *rest.Problem {
	if len(faults) != 1 {
		detail += fmt.Sprintf(": %d faults", len(faults))
	}
	if shown := countShown(faults); shown < len(faults) {
		detail += fmt.Sprintf(", of which here are %d", shown)
		faults = faults[:shown]
	}
	p := rest.Refuse(kind, "%s", detail)
	if len(faults) > 0 {
		p.Errors = faults
	}
	return p
}

// Bounds on one problem: its faults, and the node names in all of them.
const (
	maxFaults     = 1000
	maxFaultNodes = 50_000
)

// countShown returns how many faults a problem lists: at least one, and as many as the bounds allow.
func countShown(faults []ProblemFault) int {
	nodes := 0
	for i, f := range faults {
		if nodes += len(f.Nodes); i == maxFaults || i > 0 && nodes > maxFaultNodes {
			return i
		}
	}
	return len(faults)
}

func tooMany(wait time.Duration) *rest.Problem {
	p := rest.Refuse(rest.TypeTooMany, "too many requests: wait %d s", int(math.Ceil(wait.Seconds())))
	p.Retry = wait
	return p
}

// problemOf converts a backend's error to a problem. The text of an unknown error goes to the log only: it may contain
// more than the caller may see.
func (a *api) problemOf(c *rest.Call, err error) *rest.Problem {
	var p *rest.Problem
	var editFaults overridepkg.WriteFaults
	var refusal *ops.Refused
	var faults config.Faults
	var conflicts history.Conflicts
	var conflict history.Conflict
	var many *TooManyError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &refusal):
		return faultsProblem(rest.TypeRejected, "the request is refused", editErrors(refusal.Faults))
	case errors.As(err, &editFaults):
		return faultsProblem(rest.TypeRejected, "the request is refused", editErrors(editFaults))
	case errors.As(err, &faults):
		return faultsProblem(rest.TypeRejected, "the request is refused", documentErrors(faults))
	case errors.As(err, &conflicts):
		return conflictProblem(conflicts)
	case errors.As(err, &conflict):
		return conflictProblem(history.Conflicts{conflict})
	case errors.As(err, new(*ops.NotFoundError)), errors.As(err, new(*history.NoRevisionError)):
		return rest.Refuse(rest.TypeNotFound, "%s", err)
	case errors.As(err, new(*ops.TooLargeError)):
		return rest.Refuse(rest.TypeTooLarge, "%s", err)
	case errors.As(err, &many):
		p = rest.Refuse(rest.TypeTooMany, "%s", err)
		p.Retry = many.Wait
		return p
	case errors.Is(err, rest.ErrCrowded):
		return rest.Refuse(rest.TypeBusy, "%s", err)
	case errors.Is(err, ErrRefused):
		return rest.Refuse(rest.TypeConflict, "%s", err)
	case errors.Is(err, ErrRole):
		return rest.Refuse(rest.TypePermission, "%s", err)
	case errors.Is(err, ErrBusy):
		return rest.Refuse(rest.TypeBusy, "%s", err)
	case errors.Is(err, ErrNoToken):
		return rest.Refuse(rest.TypeNoToken, "%s", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return rest.Refuse(rest.TypeTimeout, "%s %s: no answer in time", c.Method, c.Route)
	}
	a.Failed(c.Method, c.Entry.Path, err)
	return rest.Internal()
}

// conflictProblem lists the writes that the caller conflicts with.
func conflictProblem(cs history.Conflicts) *rest.Problem {
	faults := make([]ProblemFault, len(cs))
	for i, one := range cs {
		faults[i] = ProblemFault{Layer: one.Layer.String(), Detail: one.Error()}
	}
	p := rest.Refuse(rest.TypePrecondition, "%s", cs.Error())
	p.Errors = faults
	return p
}

func editErrors(fs overridepkg.WriteFaults) []ProblemFault {
	out := make([]ProblemFault, len(fs))
	for i, f := range fs {
		out[i] = ProblemFault{Path: config.FormatPath(f.Path), Nodes: f.Nodes, Layer: f.Layer, Rule: f.Rule,
			Detail:  f.Problem,
			Allowed: f.Expectation}
	}
	return out
}

func documentErrors(fs config.Faults) []ProblemFault {
	out := make([]ProblemFault, len(fs))
	for i, f := range fs {
		out[i] = ProblemFault{Path: config.FormatPath(f.Path), Detail: f.Problem, Allowed: f.Expectation}
	}
	return out
}

var (
	marshals = reflect.TypeFor[json.Marshaler]()
	anything = reflect.TypeFor[any]()
)

// fillEmpty returns a copy of the value with empty lists and maps instead of nil ones, so that the JSON contains [] and
// {}, never null. It does not change the value, which may be shared.
func fillEmpty(v reflect.Value) reflect.Value {
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
			out.Index(i).Set(fillEmpty(v.Index(i)))
		}
		return out
	case reflect.Map:
		out := reflect.MakeMapWithSize(v.Type(), v.Len())
		for it := v.MapRange(); it.Next(); {
			out.SetMapIndex(it.Key(), fillEmpty(it.Value()))
		}
		return out
	case reflect.Struct:
		out := reflect.New(v.Type()).Elem()
		out.Set(v)
		for i := range v.NumField() {
			t := v.Type().Field(i)
			if absent := v.Field(i).IsZero() && strings.Contains(t.Tag.Get("json"), ",omitzero"); t.IsExported() &&
				t.Type != anything && !absent {
				out.Field(i).Set(fillEmpty(v.Field(i)))
			}
		}
		return out
	default:
		return v
	}
}
