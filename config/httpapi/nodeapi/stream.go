package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"edgespan/config/httpapi/rest"
)

// endsKey is the context key under which Serve passes the end of all streams to a request: its shutdown waits for
// answers, and a stream does not end by itself.
type endsKey struct{}

// stream answers with one JSON object a line until the reader goes, the server shuts down or run returns. An error of
// run before its first line is answered like any other.
func stream[T any](w http.ResponseWriter, r *http.Request, run func(ctx context.Context, emit func(T) error) error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if ends, ok := r.Context().Value(endsKey{}).(context.Context); ok {
		defer context.AfterFunc(ends, cancel)()
	}
	out := http.NewResponseController(w)
	// Without this, the server's read deadline would end the stream: the server keeps reading to notice that the client
	// has gone.
	_ = out.SetReadDeadline(time.Time{})
	begun := false
	begin := func() {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "application/x-ndjson")
			w.WriteHeader(http.StatusOK)
		}
	}
	err := run(ctx, func(v T) error {
		line, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode line: %w", err)
		}
		begin()
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
		return out.Flush()
	})
	if err != nil && !begun && !errors.Is(err, context.Canceled) {
		answerError(w, err)
		return
	}
	begin()
}

func (a *api) events(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	q := EventQuery{Of: v.Get("of"), Kind: v.Get("kind"), Follow: v.Get("follow") == "1",
		Why: v.Get("why") == "1"}
	if q.Kind != "" && !slices.Contains(EventKinds(), q.Kind) {
		answerProblem(w, rest.Refuse(rest.TypeBadRequest, "kind: invalid value %q: must be one of %s", q.Kind,
			strings.Join(EventKinds(), " ")))
		return
	}
	if last := v.Get("last"); last != "" {
		n, err := strconv.Atoi(last)
		if err != nil || n < 0 {
			answerProblem(w, rest.Refuse(rest.TypeBadRequest, "last: invalid value %q: must be 0 or more", last))
			return
		}
		q.Last = n
	}
	if since := v.Get("since"); since != "" {
		at, err := time.Parse(time.RFC3339Nano, since)
		if err != nil {
			answerProblem(w, rest.Refuse(rest.TypeBadRequest,
				"since: invalid value %q: must be a time as in 2006-01-02T15:04:05Z", since))
			return
		}
		q.Since = at
	}
	of, err := identified(r.Context(), a.backend, q.Of)
	if err != nil {
		answerError(w, err)
		return
	}
	q.Of = of
	stream(w, r, func(ctx context.Context, emit func(Event) error) error { return a.backend.Events(ctx, q, emit) })
}

func (a *api) watch(w http.ResponseWriter, r *http.Request) {
	kinds := WatchKinds()
	if asked := r.URL.Query().Get("kinds"); asked != "" {
		kinds = strings.Split(asked, ",")
	}
	for _, k := range kinds {
		if !slices.Contains(Kinds(), k) {
			answerProblem(w, rest.Refuse(rest.TypeBadRequest, "kinds: invalid value %q: must be one of %s", k,
				strings.Join(Kinds(), " ")))
			return
		}
	}
	stream(w, r, func(ctx context.Context, emit func(Observed) error) error { return a.backend.Watch(ctx, kinds, emit) })
}

func (a *api) explain(w http.ResponseWriter, r *http.Request) {
	of := r.URL.Query().Get("of")
	kind, _, _ := strings.Cut(of, "/")
	if !slices.Contains(ExplainKinds(), kind) {
		answerProblem(w, rest.Refuse(rest.TypeBadRequest, "of: invalid value %q: must be %s with an id", kind,
			strings.Join(ExplainKinds(), " ")))
		return
	}
	of, err := identified(r.Context(), a.backend, of)
	if err != nil {
		answerError(w, err)
		return
	}
	_, id, _ := strings.Cut(of, "/")
	got, err := a.backend.Explain(r.Context(), kind, id)
	answerWith(w, got, err)
}

func (a *api) diff(w http.ResponseWriter, r *http.Request) {
	of, err := identified(r.Context(), a.backend, r.URL.Query().Get("of"))
	if err != nil {
		answerError(w, err)
		return
	}
	got, err := a.backend.Diff(r.Context(), of)
	answerWith(w, differing{orEmpty(got)}, err)
}

func (a *api) doctor(w http.ResponseWriter, r *http.Request) {
	got, err := a.backend.Doctor(r.Context())
	answerWith(w, found{orEmpty(got)}, err)
}

type differing struct {
	Differences []Difference `json:"differences"`
}

type found struct {
	Findings []Finding `json:"findings"`
}
