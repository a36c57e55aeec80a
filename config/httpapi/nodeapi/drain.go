package nodeapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"edgespan/config/httpapi/rest"
)

// DrainOptions are the options of Drain.
type DrainOptions struct {
	For time.Duration // 0: until Undrain
	By  string        // who drains it, for people
}

// MaxDrain bounds DrainOptions.For.
const MaxDrain = 720 * time.Hour

// CheckDrain returns what is wrong with the time of a drain, "" for nothing.
func CheckDrain(d time.Duration) string {
	if d <= 0 || d > MaxDrain {
		return fmt.Sprintf("a positive duration of at most %v, such as 1h", MaxDrain)
	}
	return ""
}

type (
	draining struct {
		Until time.Time `json:"until,omitzero"`
	}
	undrained struct {
		Drained bool `json:"drained"` // until now
	}
)

func (a *api) drain(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	how := DrainOptions{By: q.Get("by")}
	if text := q.Get("for"); text != "" {
		d, err := time.ParseDuration(text)
		if must := CheckDrain(d); err != nil || must != "" {
			answerProblem(w, rest.Refuse(rest.TypeBadRequest, "for: invalid value %q: must be %s", printableName(text),
				CheckDrain(0)))
			return
		}
		how.For = d
	}
	until, err := a.backend.Drain(r.Context(), r.PathValue("label"), how)
	answerWith(w, draining{until}, err)
}

func (a *api) undrain(w http.ResponseWriter, r *http.Request) {
	was, err := a.backend.Undrain(r.Context(), r.PathValue("label"))
	answerWith(w, undrained{was}, err)
}

// Drain keeps a port free of networks that have another one that works.
func (c *Client) Drain(ctx context.Context, label string, how DrainOptions) (until time.Time, err error) {
	q := url.Values{}
	if how.For != 0 {
		q.Set("for", how.For.String())
	}
	if how.By != "" {
		q.Set("by", how.By)
	}
	out, err := post[draining](ctx, c, "/v1/port/"+url.PathEscape(label)+"/drain", q, nil)
	return out.Until, err
}

// Undrain ends a drain, and reports whether there was one.
func (c *Client) Undrain(ctx context.Context, label string) (drained bool, err error) {
	out, err := post[undrained](ctx, c, "/v1/port/"+url.PathEscape(label)+"/undrain", nil, nil)
	return out.Drained, err
}
