package configdbapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// Response headers that the original does not have.
const (
	VersionHeader  = "X-ConfigDB-Version"  // of the values at exactly the requested level
	RevisionHeader = "X-ConfigDB-Revision" // of the facts
)

// reply is the answer to a call.
type reply = rest.Reply

// answer returns a value as a reply, or the error.
func answer(v any, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	body, err := rest.JSON(v)
	return reply{Body: body}, err
}

// numbered adds the headers for version and revision, in net/http's spelling; 0 adds none.
func numbered(r reply, version, revision uint64) reply {
	r.Header = slices.Grow(r.Header, 2)
	if version > 0 {
		r.Add("X-Configdb-Version", strconv.FormatUint(version, 10))
	}
	if revision > 0 {
		r.Add("X-Configdb-Revision", strconv.FormatUint(revision, 10))
	}
	return r
}

// answerQuery answers with the result of a query. It may contain secrets if the caller sees them.
func (c *call) answerQuery(answer model.Answer, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	r := reply{Body: answer.Body, Kept: true, ETag: answer.ETag, Secret: answer.Secret && c.reveals()}
	return numbered(r, answer.Version, answer.Revision), nil
}

// finishReply sets the status of the route, or "not modified".
func finishReply(c *call, r reply) reply {
	r.Status = cmp.Or(r.Status, c.row.Status)
	if c.row.Method == http.MethodGet {
		r = r.UnlessMatched(c.Header["If-None-Match"])
	}
	return r
}

func refuse(status int, format string, args ...any) error {
	return &rest.Problem{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// Message is the body of every error.
type Message struct {
	Msg string `json:"msg"`
}

// Refused returns the answer for an error.
func (a *api) Refused(c *rest.Call, err error) reply {
	p := a.problemOf(c, err)
	body, err := rest.JSON(Message{p.Detail})
	if err != nil {
		body = []byte(`{"msg":""}`) // never: it is one string
	}
	return p.Reply("", body)
}

// statuses maps the model's faults, ofDocuments the errors of documents; others of those are conflicts.
var statuses = map[model.ErrorKind]int{
	model.Invalid: http.StatusBadRequest, model.NotFound: http.StatusNotFound, model.Conflict: http.StatusConflict,
	model.Stale: http.StatusPreconditionFailed, model.TooLarge: http.StatusRequestEntityTooLarge,
	model.Busy: http.StatusServiceUnavailable,
}

var ofDocuments = map[configdb.Kind]int{
	configdb.Malformed: http.StatusBadRequest, configdb.TooLarge: http.StatusRequestEntityTooLarge,
}

// problemOf converts an error for the caller. The text of an unknown error goes to the log only: it may contain more
// than the caller may see.
func (a *api) problemOf(c *rest.Call, err error) *rest.Problem {
	var p *rest.Problem
	var denied *Denied
	var fault *model.RequestError
	var document *configdb.Error
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &denied):
		p := &rest.Problem{Status: denied.Status, Detail: denied.Text, Retry: denied.Wait}
		if p.Status == http.StatusUnauthorized {
			p.Challenges = a.auth.Challenges()
		}
		return p
	case errors.As(err, &fault):
		p := &rest.Problem{Status: statuses[fault.Kind], Detail: fault.Text}
		if fault.Kind == model.Busy {
			p.Retry = time.Second
		}
		return p
	case errors.As(err, &document):
		return &rest.Problem{Status: cmp.Or(ofDocuments[document.Kind], http.StatusConflict), Detail: document.Text}
	case errors.Is(err, rest.ErrCrowded):
		return rest.Refuse(rest.TypeBusy, "%s", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return rest.Refuse(rest.TypeTimeout, "no answer in time")
	}
	a.Failed(c.Method, c.Entry.Path, err)
	return rest.Internal()
}
