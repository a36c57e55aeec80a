package rest

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Problem is the error of a request and its body (RFC 9457).
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Errors any    `json:"errors,omitempty"` // a list of faults

	Allow      []string      `json:"-"` // methods, for a 405
	Retry      time.Duration `json:"-"` // how long to wait before trying again
	Challenges []string      `json:"-"` // how to authenticate, for a 401
}

// The problem types, by which a client distinguishes errors without parsing prose.
const (
	TypeMalformed    = "urn:edgespan:problem:malformed"
	TypeBadRequest   = "urn:edgespan:problem:bad-request"
	TypeNoToken      = "urn:edgespan:problem:no-token" //nolint:gosec // no credential
	TypePermission   = "urn:edgespan:problem:permission"
	TypeNotFound     = "urn:edgespan:problem:not-found"
	TypeNoRoute      = "urn:edgespan:problem:no-such-route"
	TypeMethod       = "urn:edgespan:problem:method-not-allowed"
	TypeConflict     = "urn:edgespan:problem:conflict"
	TypePrecondition = "urn:edgespan:problem:precondition-failed"
	TypeTooLarge     = "urn:edgespan:problem:too-large"
	TypeMediaType    = "urn:edgespan:problem:media-type"
	TypeMisdirected  = "urn:edgespan:problem:misdirected"
	TypeRejected     = "urn:edgespan:problem:rejected"
	TypeTooMany      = "urn:edgespan:problem:too-many-requests"
	TypeInternal     = "urn:edgespan:problem:internal"
	TypeBusy         = "urn:edgespan:problem:busy"
	TypeTimeout      = "urn:edgespan:problem:timeout"
)

// Kinds maps each type to its status and title.
var Kinds = map[string]struct {
	Status int
	Title  string
}{
	TypeMalformed:    {http.StatusBadRequest, "malformed document"},
	TypeBadRequest:   {http.StatusBadRequest, "bad request"},
	TypeNoToken:      {http.StatusUnauthorized, "no valid token"},
	TypePermission:   {http.StatusForbidden, "permission denied"},
	TypeNotFound:     {http.StatusNotFound, "not found"},
	TypeNoRoute:      {http.StatusNotFound, "no such route"},
	TypeMethod:       {http.StatusMethodNotAllowed, "method not allowed"},
	TypeConflict:     {http.StatusConflict, "conflict"},
	TypePrecondition: {http.StatusPreconditionFailed, "somebody else was faster"},
	TypeTooLarge:     {http.StatusRequestEntityTooLarge, "too large"},
	TypeMediaType:    {http.StatusUnsupportedMediaType, "media type not supported"},
	TypeMisdirected:  {http.StatusMisdirectedRequest, "not this host"},
	TypeRejected:     {http.StatusUnprocessableEntity, "refused"},
	TypeTooMany:      {http.StatusTooManyRequests, "too many requests"},
	TypeInternal:     {http.StatusInternalServerError, "internal error"},
	TypeBusy:         {http.StatusServiceUnavailable, "busy"},
	TypeTimeout:      {http.StatusGatewayTimeout, "timeout"},
}

// Refuse returns a problem of a type. TypeBusy sets a retry after one second.
func Refuse(kind, format string, args ...any) *Problem {
	p := &Problem{Type: kind, Title: Kinds[kind].Title, Status: Kinds[kind].Status, Detail: fmt.Sprintf(format, args...)}
	if kind == TypeBusy {
		p.Retry = time.Second
	}
	return p
}

// Internal is the only detail of an internal error that a caller gets.
func Internal() *Problem {
	return Refuse(TypeInternal, "the controller has failed at this; its log says why")
}

func (p *Problem) Error() string { return p.Detail }

// Reply returns the answer for a problem, with the body in the form of an API.
func (p *Problem) Reply(kind string, body []byte) Reply {
	r := Reply{Status: p.Status, Kind: kind, Body: body}
	if p.Retry > 0 {
		r.Add("Retry-After", strconv.Itoa(int(math.Ceil(p.Retry.Seconds()))))
	}
	if len(p.Allow) > 0 {
		r.Add("Allow", strings.Join(p.Allow, ", "))
	}
	for _, one := range p.Challenges {
		r.Add("WWW-Authenticate", one)
	}
	return r
}
