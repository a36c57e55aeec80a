package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"edgespan/config/httpapi/rest"
)

// readyDeadline bounds /readyz: a daemon that can't list its networks within a second is alive but not ready.
const readyDeadline = time.Second

// Option changes a Handler.
type Option func(*api)

// WithVersion sets the version that /v1/version answers; the default is "unknown".
func WithVersion(v string) Option { return func(a *api) { a.version = v } }

// WithMetrics sets what answers /metrics.
func WithMetrics(h http.Handler) Option {
	return func(a *api) { a.mux.Handle("GET /metrics", h) }
}

type api struct {
	backend Backend
	version string
	mux     *http.ServeMux
	stacks  sync.Mutex // held while the stacks of the goroutines are answered
}

// Handler serves the routes of the control socket from b. Every answer is JSON, every error
// problem+json (RFC 9457).
func Handler(b Backend, opts ...Option) http.Handler {
	a := &api{backend: b, version: "unknown", mux: http.NewServeMux()}
	for _, o := range opts {
		o(a)
	}
	a.mux.HandleFunc("POST /v1/apply", a.apply)
	a.mux.HandleFunc("POST /v1/confirm", a.confirm)
	a.mux.HandleFunc("POST /v1/rollback", a.rollback)
	a.mux.HandleFunc("POST /v1/release", a.release)
	a.mux.HandleFunc("POST /v1/port/{label}/drain", a.drain)
	a.mux.HandleFunc("POST /v1/port/{label}/undrain", a.undrain)
	a.mux.HandleFunc("GET /v1/{kind}", a.list)
	a.mux.HandleFunc("GET /v1/{kind}/{id...}", a.get)
	a.mux.HandleFunc("GET /v1/{kind}/{id}/ready", a.ready)
	a.mux.HandleFunc("GET /v1/version", a.showVersion)
	a.mux.HandleFunc("GET /v1/explain", a.explain)
	a.mux.HandleFunc("GET /v1/acl/explain", a.explainFlow)
	a.mux.HandleFunc("GET /v1/acl/rules", a.rules)
	a.mux.HandleFunc("POST /v1/acl/enforce", a.enforce)
	a.mux.HandleFunc("GET /v1/diff", a.diff)
	a.mux.HandleFunc("GET /v1/events", a.events)
	a.mux.HandleFunc("GET /v1/flows", a.flowLog)
	a.mux.HandleFunc("GET /v1/watch", a.watch)
	a.mux.HandleFunc("GET /v1/doctor", a.doctor)
	a.mux.HandleFunc("GET /v1/debug/goroutines", a.goroutines)
	a.mux.HandleFunc("GET /livez", a.livez)
	a.mux.HandleFunc("GET /readyz", a.readyz)
	a.mux.HandleFunc("/", a.noRoute)
	return http.HandlerFunc(a.serve)
}

// serve turns a panic of a backend into an answer, and answers unclean paths itself: the mux would redirect them with
// HTML.
func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			panic(v)
		default:
			answerProblem(w, rest.Refuse(rest.TypeInternal, "panic: %v", v))
		}
	}()
	if p := r.URL.EscapedPath(); path.Clean(p) != p {
		a.noRoute(w, r)
		return
	}
	a.mux.ServeHTTP(w, r)
}

func (a *api) apply(w http.ResponseWriter, r *http.Request) {
	dry := r.URL.Query().Get("dryRun")
	if dry != "" && dry != "0" && dry != "1" {
		answerProblem(w, rest.Refuse(rest.TypeBadRequest, "dryRun: invalid value %q: must be 0 or 1", dry))
		return
	}
	doc, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxDocument))
	if err != nil {
		answerError(w, fmt.Errorf("read document: %w", err))
		return
	}
	if dry == "1" {
		changes, err := a.backend.Plan(r.Context(), doc)
		var flows FlowChanges
		if err == nil {
			flows, err = a.backend.PlanFlows(r.Context(), doc)
		}
		answerWith(w, planned{orEmpty(changes), flows.List, flows.LeftOut, flows.Incomplete}, err)
		return
	}
	how, fault := parseApplyOptions(r.URL.Query())
	if fault != "" {
		answerProblem(w, rest.Refuse(rest.TypeBadRequest, "%s", fault))
		return
	}
	how.Caller = callerOf(r.Context())
	warnings, err := a.backend.Apply(r.Context(), doc, how)
	answerWith(w, applied{Warnings: orEmpty(warnings)}, err)
}

func (a *api) list(w http.ResponseWriter, r *http.Request) {
	items, missing, ok := a.items(w, r)
	if ok {
		answer(w, listed{Items: orEmpty(items), Missing: missing})
	}
}

func (a *api) get(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	id, err := identify(r.Context(), a.backend, kind, r.PathValue("id"))
	if err != nil {
		answerError(w, fmt.Errorf("get %w", err))
		return
	}
	items, missing, ok := a.items(w, r)
	if !ok {
		return
	}
	for _, it := range items {
		// UUIDs are compared without regard to case, as RFC 9562 §4 requires; no other ids differ only in case.
		if it.ID == id || isUUIDKind(it.Kind) && strings.EqualFold(it.ID, id) {
			answer(w, it)
			return
		}
	}
	if len(missing) > 0 { // it may be among the missing ones, so it can't be reported as not found
		answerError(w, fmt.Errorf("get %s %s: %w: %w", kind, id, rest.ErrBusy, &rest.Incomplete{Missing: missing}))
		return
	}
	answerError(w, fmt.Errorf("get %s %s: %w", kind, id, rest.ErrNotFound))
}

// items lists the kind that the request names; if ok is false, the request is answered.
func (a *api) items(w http.ResponseWriter, r *http.Request) (items []Resource, missing []string, ok bool) {
	kind := r.PathValue("kind")
	if !slices.Contains(Kinds(), kind) {
		answerProblem(w, noKind(kind, Kinds()))
		return nil, nil, false
	}
	items, err := a.backend.List(r.Context(), kind)
	var inc *rest.Incomplete
	if err != nil && !errors.As(err, &inc) {
		answerError(w, err)
		return nil, nil, false
	}
	if inc != nil {
		missing = inc.Missing
	}
	return items, missing, true
}

func (a *api) ready(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	if !slices.Contains(WaitKinds(), kind) {
		answerProblem(w, noKind(kind, WaitKinds()))
		return
	}
	id, err := identify(r.Context(), a.backend, kind, r.PathValue("id"))
	switch {
	case errors.Is(err, rest.ErrNotFound):
		id = r.PathValue("id") // absent, unless something without a display name has this id
	case err != nil:
		answerError(w, err)
		return
	}
	got, err := a.backend.Ready(r.Context(), kind, id)
	answerWith(w, got, err)
}

func (a *api) showVersion(w http.ResponseWriter, _ *http.Request) {
	answer(w, versioned{Version: a.version})
}

func (a *api) livez(w http.ResponseWriter, _ *http.Request) { answer(w, alive{Status: "ok"}) }

func (a *api) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyDeadline)
	defer cancel()
	checks := a.backend.Checks()
	if _, err := a.backend.List(ctx, "ni"); err != nil {
		checks = append(checks, Check{Name: "networks", Detail: err.Error()})
	} else {
		checks = append(checks, Check{Name: "networks", OK: true})
	}
	var failed []string
	for _, c := range checks {
		if !c.OK {
			failed = append(failed, c.Name+": "+c.Detail)
		}
	}
	body := alive{Status: "ok"}
	if r.URL.Query().Has("verbose") {
		body.Checks = checks
	}
	if failed == nil {
		answer(w, body)
		return
	}
	p := rest.Refuse(rest.TypeBusy, "%s", strings.Join(failed, "; "))
	if p.Title = "not ready"; body.Checks != nil {
		p.Errors = body.Checks
	}
	answerProblem(w, p)
}

// noRoute answers requests that match no route: 405 for a wrong method, 404 for a wrong path.
func (a *api) noRoute(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = m
		if _, pattern := a.mux.Handler(other); m != r.Method && strings.HasPrefix(pattern, m) {
			allowed = append(allowed, m)
		}
	}
	if allowed == nil {
		answerProblem(w, rest.Refuse(rest.TypeNoRoute, "%s %s: no such route", r.Method, r.URL.Path))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	answerProblem(w, rest.Refuse(rest.TypeMethod, "%s %s: method not allowed: must be %s", r.Method, r.URL.Path,
		strings.Join(allowed, ", ")))
}

func noKind(kind string, allowed []string) *rest.Problem {
	return rest.Refuse(rest.TypeNoRoute, "kind: invalid value %q: must be one of %s", kind, strings.Join(allowed, " "))
}

func isUUIDKind(kind string) bool { return kind == "ni" || kind == "app" || OfAdapter(kind) }

// orEmpty returns an empty list for nil: JSON lists are [] here, never null.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// answerError answers with a backend's error as a problem.
func answerError(w http.ResponseWriter, err error) {
	kind := rest.TypeInternal
	var rejected *rest.Rejected
	switch {
	case errors.As(err, &rejected):
		p := rest.Refuse(rest.TypeRejected, "%d faults", len(rejected.Faults))
		if p.Title = "config rejected"; len(rejected.Faults) > 0 {
			p.Errors = rejected.Faults
		}
		answerProblem(w, p)
		return
	case errors.As(err, new(*http.MaxBytesError)):
		p := rest.Refuse(rest.TypeTooLarge, tooLarge)
		p.Title = "document too large"
		answerProblem(w, p)
		return
	case errors.Is(err, rest.ErrConflict):
		kind = rest.TypeConflict
	case errors.Is(err, rest.ErrNotFound):
		kind = rest.TypeNotFound
	case errors.Is(err, rest.ErrPermission):
		kind = rest.TypePermission
	case errors.Is(err, rest.ErrBusy):
		kind = rest.TypeBusy
	case errors.Is(err, context.DeadlineExceeded):
		kind = rest.TypeTimeout
	}
	answerProblem(w, rest.Refuse(kind, "%s", err))
}

// tooLarge is the fault of a document above MaxDocument.
const tooLarge = "document: too large: must be at most 4 MiB"

func answerProblem(w http.ResponseWriter, p *rest.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	write(w, p.Status, p)
}

// answerWith answers with a backend's result or error.
func answerWith(w http.ResponseWriter, body any, err error) {
	if err != nil {
		answerError(w, err)
		return
	}
	answer(w, body)
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	write(w, http.StatusOK, body)
}

func write(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil { // a Spec or Status that JSON can't encode is a bug of the backend
		w.Header().Set("Content-Type", "application/problem+json")
		status = http.StatusInternalServerError
		text, _ = json.Marshal(rest.Refuse(rest.TypeInternal, "encode answer: %s", err))
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // an error means that the client has gone: there is nothing to report
}
