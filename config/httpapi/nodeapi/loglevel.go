package nodeapi

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"edgespan/config"
	"edgespan/config/httpapi/rest"
	"edgespan/pubsub/loglevel"
)

// maxBy bounds who is named as the author of a change of levels, in bytes.
const maxBy = 64

type levelled struct {
	Levels []loglevel.Setting `json:"levels"`
}

// WithLogLevels serves the levels of the log: GET and POST /v1/loglevel.
func WithLogLevels(l *loglevel.Levels) Option {
	return func(a *api) {
		a.mux.HandleFunc("GET /v1/loglevel", func(w http.ResponseWriter, _ *http.Request) { answer(w, levelled{l.List()}) })
		a.mux.HandleFunc("POST /v1/loglevel", func(w http.ResponseWriter, r *http.Request) { setLogLevel(w, r, l) })
	}
}

func setLogLevel(w http.ResponseWriter, r *http.Request, l *loglevel.Levels) {
	q := r.URL.Query()
	c := loglevel.Change{Subsystem: q.Get("subsystem"), Level: q.Get("level"), By: config.Truncate(q.Get("by"), maxBy)}
	var err error
	if text := q.Get("for"); text != "" {
		if c.For, err = time.ParseDuration(text); err != nil || c.For == 0 {
			c.For = -1
		}
	}
	if field, problem := l.Check(c); field != "" {
		answerProblem(w, rest.Refuse(rest.TypeBadRequest, "%s: %s", field, problem))
		return
	}
	l.Set(c)
	answer(w, levelled{l.List()})
}

// LogLevels returns the level of all subsystems, then of each.
func (c *Client) LogLevels(ctx context.Context) ([]loglevel.Setting, error) {
	out, err := rest.Ask[levelled](ctx, c.Client, rest.Request{Method: http.MethodGet, Path: "/v1/loglevel"})
	return out.Levels, err
}

// SetLogLevel sets or resets levels of the log for a while, and returns all.
func (c *Client) SetLogLevel(ctx context.Context, to loglevel.Change) ([]loglevel.Setting, error) {
	q := url.Values{"subsystem": {to.Subsystem}, "level": {to.Level}}
	if to.For != 0 {
		q.Set("for", to.For.String())
	}
	if to.By != "" {
		q.Set("by", to.By)
	}
	out, err := post[levelled](ctx, c, "/v1/loglevel", q, nil)
	return out.Levels, err
}
