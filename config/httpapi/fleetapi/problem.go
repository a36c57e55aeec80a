package fleetapi

import (
	"cmp"
	"strings"

	"edgespan/config"
	"edgespan/config/httpapi/rest"
	overridepkg "edgespan/config/layers/override"
)

// Problem is the body of every error, and the client's error.
type Problem struct {
	rest.Problem
	Errors []ProblemFault `json:"errors,omitempty"`
}

// ProblemFault is one of several faults.
type ProblemFault struct {
	Path    string   `json:"path"`
	Nodes   []string `json:"nodes,omitempty"`
	Layer   string   `json:"layer,omitempty"` // of the value
	Rule    string   `json:"rule,omitempty"`
	Detail  string   `json:"detail"` // "invalid value 5"
	Allowed string   `json:"allowed,omitempty"`
}

// Error returns the detail, or one line for each fault.
func (p *Problem) Error() string {
	if len(p.Errors) == 0 {
		return cmp.Or(p.Detail, p.Title)
	}
	return strings.Join(p.lines(), "\n")
}

// Unwrap returns the error of config/httpapi/rest that a caller branches on: *Rejected for a faulty request, a sentinel
// for other refusals, nil for an error of the controller.
func (p *Problem) Unwrap() error {
	switch p.Type {
	case rest.TypeMalformed, rest.TypeBadRequest, rest.TypeRejected, rest.TypeTooLarge, rest.TypeMediaType:
		if len(p.Errors) == 0 {
			return &rest.Rejected{Faults: []string{p.Error()}}
		}
		return &rest.Rejected{Faults: p.lines()}
	case rest.TypeNoToken, rest.TypePermission:
		return rest.ErrPermission
	case rest.TypeNotFound:
		return rest.ErrNotFound
	case rest.TypeConflict, rest.TypePrecondition:
		return rest.ErrConflict
	case rest.TypeTooMany, rest.TypeBusy:
		return rest.ErrBusy
	case rest.TypeTimeout:
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

// line formats a fault as the offline commands do.
func (f ProblemFault) line() string {
	path, err := config.ParsePath(f.Path)
	if f.Path == "" || err != nil {
		path = nil
	}
	if f.Rule == "" {
		return config.Fault{Path: path, Problem: f.Detail, Expectation: f.Allowed}.Error()
	}
	return overridepkg.WriteFault{Nodes: f.Nodes, Path: path, Rule: f.Rule, Layer: f.Layer, Problem: f.Detail,
		Expectation: f.Allowed}.Error()
}
