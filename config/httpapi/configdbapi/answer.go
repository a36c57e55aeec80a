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

// The headers that tell of an answer what its body can't: clients know that.
const (
	VersionHeader  = "X-ConfigDB-Version"  // of the values at exactly the level that was asked for
	RevisionHeader = "X-ConfigDB-Revision" // of the facts
)

// reply is what a call is answered with.
type reply = rest.Reply

// answer is a value as the answer, or why there is none.
func answer(v any, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	body, err := rest.JSON(v)
	return reply{Body: body}, err
}

// numbered says in an answer at which version and revision it is, as net/http spells the headers; 0 is not said.
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

// answerQuery is what a query found. What an admin or the node itself reads may have secrets in it.
func (c *call) answerQuery(answer model.Answer, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	r := reply{Body: answer.Body, Kept: true, ETag: answer.ETag, Secret: answer.Secret && c.reveals()}
	return numbered(r, answer.Version, answer.Revision), nil
}

// finishReply gives an answer the status of its row, or "not modified".
func finishReply(c *call, r reply) reply {
	r.Status = cmp.Or(r.Status, c.row.Status)
	if c.row.Method == http.MethodGet {
		r = r.Unless(c.Header["If-None-Match"])
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

// Refused is an error as the answer.
func (a *api) Refused(c *rest.Call, err error) reply {
	p := a.problemOf(c, err)
	body, err := rest.JSON(Message{p.Detail})
	if err != nil {
		body = []byte(`{"msg":""}`) // never: it is one text
	}
	return p.Reply("", body)
}

// statuses are those of the ledger's faults, ofDocuments those of documents' errors, where they are no conflict.
var statuses = map[model.FaultKind]int{
	model.Invalid: http.StatusBadRequest, model.NotFound: http.StatusNotFound, model.Conflict: http.StatusConflict,
	model.Stale: http.StatusPreconditionFailed, model.TooLarge: http.StatusRequestEntityTooLarge,
	model.Busy: http.StatusServiceUnavailable,
}

var ofDocuments = map[configdb.Kind]int{
	configdb.Malformed: http.StatusBadRequest, configdb.TooLarge: http.StatusRequestEntityTooLarge,
}

// problemOf says what a caller is told of an error. What it does not know is for the log only: it
// may speak of more than the caller may see.
func (a *api) problemOf(c *rest.Call, err error) *rest.Problem {
	var p *rest.Problem
	var denied *Denied
	var fault *model.Fault
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
