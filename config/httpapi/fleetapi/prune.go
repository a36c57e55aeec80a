package fleetapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"edgespan/config/httpapi/rest"
)

// PrunedHistory is the result of pruning the history.
type PrunedHistory struct {
	From      uint64 `json:"from"`      // the first readable revision
	Revisions int    `json:"revisions"` // deleted
	Objects   int    `json:"objects"`   // deleted parts of layers and trees
	DryRun    bool   `json:"dryRun,omitempty"`
}

// leastAge is the minimum age of a pruned revision: replicas that lag still read younger ones.
const leastAge = time.Hour

func servePrune(a *api, c *call) (reply, error) {
	before, err := beforeOf(c.texts["before"], time.Now())
	if err != nil {
		return reply{}, err
	}
	return answer(a.backend.PruneHistory(c.Context(), c.Caller, before, c.flags["dryRun"]))
}

// beforeOf parses a time or an age.
func beforeOf(text string, now time.Time) (time.Time, error) {
	before, err := time.Parse(time.RFC3339, text)
	if err != nil {
		var age time.Duration
		if days, ok := strings.CutSuffix(text, "d"); ok {
			n, wrong := strconv.ParseUint(days, 10, 16)
			age, err = time.Duration(n)*24*time.Hour, wrong
		} else {
			age, err = time.ParseDuration(text)
		}
		before = now.Add(-age)
	}
	if err != nil {
		return time.Time{}, rest.Refuse(rest.TypeBadRequest,
			"before: invalid value %s: must be a time as 2026-11-22T12:00:00Z, or an age as 2160h or 90d", strconv.Quote(text))
	}
	if now.Sub(before) < leastAge {
		return time.Time{}, rest.Refuse(rest.TypeBadRequest, "before: invalid value %s: must be an hour ago, or earlier",
			strconv.Quote(text))
	}
	return before, nil
}

// PruneHistory deletes the revisions before a time, or older than an age.
func (c *Client) PruneHistory(ctx context.Context, before string, dryRun bool) (PrunedHistory, error) {
	v := url.Values{"before": {before}}
	rest.SetFlag(v, "dryRun", dryRun)
	return rest.Ask[PrunedHistory](ctx, c.Client,
		request{Method: http.MethodPost, Path: route("history", "prune"), Query: v})
}
