package fleetapi

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/httpapi/rest"
	overridepkg "edgespan/config/layers/override"
)

// Problem is the body of every error (RFC 9457), and the error that the client answers with.
type Problem struct {
	Type   string         `json:"type"`
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail"`
	Errors []ProblemFault `json:"errors,omitempty"`

	allow []string      // methods, of a 405
	retry time.Duration // after which asking again makes sense
}

// ProblemFault is one thing that is wrong, of many.
type ProblemFault struct {
	Path    string   `json:"path"`
	Nodes   []string `json:"nodes,omitempty"`
	Layer   string   `json:"layer,omitempty"` // that the value is of
	Rule    string   `json:"rule,omitempty"`
	Detail  string   `json:"detail"` // "is 5"
	Allowed string   `json:"allowed,omitempty"`
}

// The problem types: how a client tells one error from another without reading prose.
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

// kinds are the status and the title of each type; a problem has no others.
var kinds = map[string]struct {
	status int
	title  string
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

// Error is the detail, or one line for each fault.
func (p *Problem) Error() string {
	if len(p.Errors) == 0 {
		return cmp.Or(p.Detail, p.Title)
	}
	return strings.Join(p.lines(), "\n")
}

// Unwrap is the error of config/httpapi that a caller branches on: *Rejected for what is
// wrong with the request, a sentinel otherwise, nothing for an error of the controller.
func (p *Problem) Unwrap() error {
	switch p.Type {
	case TypeMalformed, TypeBadRequest, TypeRejected, TypeTooLarge, TypeMediaType:
		if len(p.Errors) == 0 {
			return &rest.Rejected{Faults: []string{p.Error()}}
		}
		return &rest.Rejected{Faults: p.lines()}
	case TypeNoToken, TypePermission:
		return rest.ErrPermission
	case TypeNotFound:
		return rest.ErrNotFound
	case TypeConflict, TypePrecondition:
		return rest.ErrConflict
	case TypeTooMany, TypeBusy:
		return rest.ErrBusy
	case TypeTimeout:
		return rest.ErrTimeout
	}
	return nil
}

func (p *Problem) lines() []string {
	out := make([]string, len(p.Errors))
	for i, f := range p.Errors {
		out[i] = f.line()
	}
	return out
}

// line is a fault as the offline commands show it.
func (f ProblemFault) line() string {
	path, err := config.ParsePath(f.Path)
	if f.Path == "" || err != nil {
		path = nil
	}
	if f.Rule == "" {
		return config.Fault{Path: path, What: f.Detail, Allowed: f.Allowed}.Error()
	}
	return overridepkg.Fault{Nodes: f.Nodes, Path: path, Rule: f.Rule, Layer: f.Layer, What: f.Detail,
		Allowed: f.Allowed}.Error()
}
