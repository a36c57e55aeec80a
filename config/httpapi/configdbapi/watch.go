package configdbapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"edgespan/config"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

func getHistory(a *api, c *call) (reply, error) {
	before, limit, err := c.listPage()
	if err != nil {
		return reply{}, err
	}
	of, _, err := c.count("environment")
	if err != nil {
		return reply{}, err
	}
	all, err := a.backend.Records(c.Context(), model.RecordsQuery{Environment: int64(of), Before: before, Limit: limit})
	return answer(each(all, wholeRecord), err)
}

func wholeRecord(r model.Record) model.Record {
	r.Changes = list(r.Changes)
	return r
}

func getRevision(a *api, c *call) (reply, error) {
	n := uint64(c.id)
	all, err := a.backend.Records(c.Context(), model.RecordsQuery{Before: n + 1, Limit: 1})
	if err != nil {
		return reply{}, err
	}
	if len(all) == 0 || all[0].Revision != n {
		return reply{}, refuse(http.StatusNotFound, "revision %d: there is none", n)
	}
	return answer(wholeRecord(all[0]), nil)
}

// interest selects the revisions of a watch.
type interest struct {
	environment int64 // 0: all
	resource    int64 // 0: all
	level       *model.LevelValue
}

// getWatch sends each revision as a server-sent event (WHATWG HTML §9.2): its number is the id of the event, its
// record the data. The record has no values of documents.
func getWatch(a *api, c *call) (reply, error) {
	of, err := a.interest(c)
	if err != nil {
		return reply{}, err
	}
	since, err := a.since(c)
	if err != nil {
		return reply{}, err
	}
	leave, err := a.Watch(c.Call)
	if err != nil {
		return reply{}, err
	}
	path, asked := c.Entry.Path, c.Clone(c.Context()) // the headers of the original are cleared with its answer
	r := reply{Events: true, Done: leave}
	r.Stream = func(ctx context.Context, w io.Writer) error {
		still := rest.KnownCallerWriter{Writer: w, Known: func() bool { return a.still(asked.WithContext(ctx), c.caller) }}
		if err := a.writeEvents(ctx, since, of, still); err != nil && ctx.Err() == nil {
			a.Failed(asked.Method, path, err)
		}
		return nil
	}
	return numbered(r, 0, since), nil
}

// still reports whether the caller's token, password or certificate is still valid, for the same role.
func (a *api) still(r *http.Request, was Caller) bool {
	caller, err := a.auth.Authenticate(r)
	return err == nil && caller == was
}

// interest reads the filters of a watch.
func (a *api) interest(c *call) (interest, error) {
	of, _, err := c.count("environment")
	if err != nil {
		return interest{}, err
	}
	in := interest{environment: int64(of)}
	if text, ok := c.query.get("level"); ok {
		level, value, ok := strings.Cut(text, "=")
		if !ok || level == "" || value == "" {
			return in, refuse(http.StatusBadRequest, "level: invalid value %s: must be LEVEL=VALUE", config.Quote(text))
		}
		in.level = &model.LevelValue{Level: level, Value: value}
	}
	text, ok := c.query.get("resource")
	if !ok {
		return in, nil
	}
	ref := refOf(text)
	if in.resource = ref.ID; ref.Name == "" && ref.ID > 0 {
		return in, nil
	}
	if in.environment == 0 {
		return in, refuse(http.StatusBadRequest,
			"resource: invalid value %s: must be its id, or its name together with environment",
			config.Quote(text))
	}
	d, err := a.backend.ResolveResource(c.Context(), in.environment, ref)
	in.resource = d.ID
	return in, err
}

// since returns the revision to begin after: the last one that the caller has seen, or the newest.
func (a *api) since(c *call) (uint64, error) {
	n, given, err := c.count("since")
	name := "since"
	if text := c.Header.Get("Last-Event-ID"); text != "" {
		name, given = "Last-Event-ID", true
		if n, err = strconv.ParseUint(text, 10, 63); err != nil {
			err = refuse(http.StatusBadRequest, "Last-Event-ID: invalid value %s: must be a revision", config.Quote(text))
		}
	}
	if err != nil || given && n == 0 {
		return 0, err
	}
	records, err := a.backend.Records(c.Context(), model.RecordsQuery{Limit: 1})
	if err != nil {
		return 0, err
	}
	newest := uint64(0)
	if len(records) > 0 {
		newest = records[0].Revision
	}
	switch {
	case !given:
		return newest, nil
	case n > newest: // checked here, before the stream sends its status
		return 0, refuse(http.StatusBadRequest, "%s: invalid value %d: the newest revision is %d: must be a number up to it",
			name, n,
			newest)
	}
	return n, nil
}

// writeEvents sends each revision with matching changes.
func (a *api) writeEvents(ctx context.Context, since uint64, of interest, w io.Writer) error {
	return rest.StreamEvents(ctx, w, func(ctx context.Context, tell func([]byte) error) error {
		if err := tell([]byte(": watching\n\n")); err != nil {
			return err
		}
		return a.backend.Watch(ctx, since, func(r model.Record) error {
			if r.Changes = of.in(r); len(r.Changes) == 0 {
				return nil
			}
			event, err := rest.JSON(r)
			if err != nil {
				return err
			}
			return tell(fmt.Appendf(nil, "id: %d\nevent: revision\ndata: %s\n\n", r.Revision, event)) // JSON has one line
		})
	})
}

// in returns the matching changes of a record. A change of a component or a definition, which belongs to no
// environment, may match any filter.
func (i interest) in(r model.Record) []model.Change {
	out := []model.Change{}
	for _, c := range r.Changes {
		if i.wants(c) {
			out = append(out, c)
		}
	}
	return out
}

func (i interest) wants(c model.Change) bool {
	environment := c.Environment
	if c.What == "environment" {
		environment = c.ID
	}
	if i.environment != 0 && environment != 0 && environment != i.environment {
		return false
	}
	if i.resource != 0 && c.Resource != i.resource && (c.What != "definition" || c.ID != i.resource) {
		return false
	}
	if i.level != nil {
		for _, l := range c.Levels {
			if l.Level == i.level.Level && l.Value != i.level.Value {
				return false
			}
		}
	}
	return true
}
