package configdbapi

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"edgespan/config"
	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
)

// maxListed is the default and maximum number of versions or revisions in one answer.
const maxListed = 1000

func (c *call) place() model.Target {
	return model.Target{Environment: c.environment, Levels: c.levels, Resource: c.resource}
}

func getHalf(a *api, c *call) (reply, error) {
	q, err := c.halfQuery()
	if err != nil {
		return reply{}, err
	}
	return c.answerQuery(a.backend.Answer(c.Context(), q, c.known()))
}

// halfQuery reads the query of a half. The presence of effective and show_lookup counts, whatever their value, as in
// the original: effective=0 is on.
func (c *call) halfQuery() (model.Query, error) {
	q := model.Query{Target: c.place(), Kind: c.kind, Reveal: c.reveals()}
	if c.kind == model.Values {
		q.Effective, q.Lookup = c.query.has("effective"), c.query.has("show_lookup")
		if q.Lookup && !q.Effective {
			return q, refuse(http.StatusConflict, "Lookup path tracing can be done only for effective values")
		}
		switch merge, ok := c.query.get("merge"); {
		case ok && merge != "deep":
			return q, refuse(http.StatusBadRequest, "merge: invalid value %s: must be deep", config.Quote(merge))
		case ok && !q.Effective:
			return q, refuse(http.StatusBadRequest, "merge: there is nothing to merge: must be used with effective")
		default:
			q.Deep = ok
		}
	}
	if key, _ := c.query.get("key"); key != "" {
		q.Key = configdb.ParseKey(key)
	}
	var given bool
	var err error
	if q.Version, given, err = c.count("version"); err != nil {
		return q, err
	}
	if given && q.Version == 0 {
		return q, refuse(http.StatusNotFound, "version 0 of %s %s was never uploaded: they count from 1", c.kind,
			refText(c.resource))
	}
	if q.Revision, given, err = c.count("revision"); err == nil && given && q.Revision == 0 {
		err = refuse(http.StatusNotFound, "revision 0 is before there was anything: they count from 1")
	}
	return q, err
}

func refText(r model.Ref) string {
	if r.Name == "" {
		return decimal(r.ID)
	}
	return config.Quote(r.Name)
}

// putHalf replaces a half. A PUT by name is redirected to the id, as the seed requires.
func putHalf(a *api, c *call) (reply, error) {
	if c.resource.Name != "" && !a.direct {
		return a.byID(c)
	}
	bound, err := c.ifMatch()
	if err != nil {
		return reply{}, err
	}
	o, err := a.readObject(c, model.MaxDocument)
	if err != nil {
		return reply{}, err
	}
	if err := a.register(c); err != nil {
		return reply{}, err
	}
	r, err := a.change(c,
		model.Put{Target: c.place(), Kind: c.kind, Value: o.JSON(), IfMatch: bound, Register: c.kind == model.Values})
	if err != nil || r.Status != 0 || !strings.Contains(strings.Join(c.Header["Prefer"], ","), "return=representation") {
		return r, err
	}
	return a.representation(c, r)
}

// representation answers a PUT with the stored document instead of an empty body.
func (a *api) representation(c *call, r reply) (reply, error) {
	out, err := c.answerQuery(a.backend.Answer(c.Context(),
		model.Query{Target: c.place(), Kind: c.kind, Reveal: c.reveals()}, nil))
	out.Status, out.Revision = http.StatusOK, r.Revision
	out.Add("Preference-Applied", "return=representation")
	return out, err
}

// byID answers 308. It reads the body first, unless the client waits for 100 Continue: an answer sent while the client
// writes would be lost with the connection.
func (a *api) byID(c *call) (reply, error) {
	d, err := a.backend.ResolveResource(c.Context(), c.environment, c.resource)
	if err != nil {
		return reply{}, err
	}
	if c.Header.Get("Expect") == "" && c.Body != nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(c.Body, MaxBody)) // discarded
	}
	where := c.location(d.ID, a.proxied)
	r, err := answer(Message{"resource_definition " + config.Quote(c.resource.Name) + " has the id " + decimal(d.ID) +
		": " +
		where}, nil)
	r.Status = http.StatusPermanentRedirect
	r.Add("Location", where)
	return r, err
}

func deleteHalf(a *api, c *call) (reply, error) {
	bound, err := c.ifMatch()
	if err != nil {
		return reply{}, err
	}
	if err := a.readNothing(c); err != nil {
		return reply{}, err
	}
	return a.change(c, model.Remove{Target: c.place(), Kind: c.kind, IfMatch: bound})
}

// halfKeys serves the keys operations on a half.
func halfKeys(op configdb.KeysOp) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		edit, err := a.readKeys(c, op)
		switch {
		case err != nil && op != configdb.KeysGet:
			return reply{}, either(a.errUnwritten(c), err)
		case err != nil:
			return reply{}, err
		case op == configdb.KeysGet:
			return c.answerQuery(a.backend.Keys(c.Context(), model.Query{Target: c.place(), Kind: c.kind, Reveal: c.reveals()},
				edit))
		}
		bound, err := c.ifMatch()
		if err != nil {
			return reply{}, err
		}
		if err := a.register(c); err != nil {
			return reply{}, err
		}
		return a.change(c, model.EditKeys{
			Target: c.place(), Kind: c.kind, Edit: edit, IfMatch: bound,
			Register: c.kind == model.Values && op == configdb.KeysSet,
		})
	}
}

// errUnwritten returns the fault that neither half of a resource was ever written at the place. It precedes faults of
// the keys, because the original looks up the record first and clients' tests send {}.
func (a *api) errUnwritten(c *call) error {
	for _, kind := range []model.Kind{model.Values, model.Overrides} {
		newest, err := a.backend.Versions(c.Context(), model.VersionsQuery{Target: c.place(), Kind: kind, Limit: 1})
		if err != nil || len(newest) > 0 {
			return err
		}
	}
	return &model.RequestError{Kind: model.NotFound,
		Text: fmt.Sprintf("%s of %s: were never written: must be a keys operation that sets a key", c.kind,
			refText(c.resource))}
}

// listPage reads which part of a list is requested.
func (c *call) listPage() (before uint64, limit int, err error) {
	before, _, err = c.count("before")
	if err != nil {
		return 0, 0, err
	}
	maximum, given, err := c.count("limit")
	switch {
	case err != nil:
		return 0, 0, err
	case given && maximum == 0:
		return 0, 0, refuse(http.StatusBadRequest, "limit: invalid value 0: must be a number from 1")
	case !given || maximum > maxListed:
		maximum = maxListed
	}
	return before, int(maximum), nil
}

func getVersions(a *api, c *call) (reply, error) {
	before, limit, err := c.listPage()
	if err != nil {
		return reply{}, err
	}
	all, err := a.backend.Versions(c.Context(),
		model.VersionsQuery{Target: c.place(), Kind: c.kind, Before: before, Limit: limit})
	return answer(list(all), err)
}

func postRollback(a *api, c *call) (reply, error) {
	f, err := a.readFields(c)
	if err != nil {
		return reply{}, err
	}
	w := model.Rollback{Target: c.place(), Kind: c.kind, Version: f.count("version"), Revision: f.count("revision")}
	f.only("version", "revision")
	if f.err == nil && (w.Version == 0) == (w.Revision == 0) {
		f.wrong("version, revision", "must be only one of them")
	}
	if f.err != nil {
		return reply{}, f.err
	}
	return a.write(c, w)
}

func postPlaceRollback(a *api, c *call) (reply, error) {
	f, err := a.readFields(c)
	if err != nil {
		return reply{}, err
	}
	w := model.Rollback{Target: c.place(), Revision: f.count("revision")}
	f.only("revision")
	if f.err == nil && w.Revision == 0 {
		f.wrong("revision", "required: must be a whole number from 1")
	}
	if f.err != nil {
		return reply{}, f.err
	}
	return a.write(c, w)
}

// postBulk writes several resources of one place. A node may upload values only.
func postBulk(a *api, c *call) (reply, error) {
	f, err := a.readFields(c)
	if err != nil {
		return reply{}, err
	}
	f.only("resources")
	resources := f.object("resources")
	if n := resources.Len(); n > model.MaxBulk {
		return reply{}, refuse(http.StatusRequestEntityTooLarge, "resources: too many (%d): must be at most %d", n,
			model.MaxBulk)
	}
	var w model.Bulk
	for _, m := range resources.Members() {
		if m.Key == "" {
			f.wrong("resources", "has an empty name: must be the name or the id of a resource")
		}
		if utf8.RuneCountInString(m.Key) > model.MaxName {
			return reply{}, refuse(http.StatusNotFound,
				"resource_definition %s: is not there: no name is longer than %d characters", config.Quote(m.Key), model.MaxName)
		}
		one := resources.object(m.Key)
		one.only("values", "overrides")
		target := c.place()
		target.Resource = refOf(m.Key)
		for _, kind := range []model.Kind{model.Values, model.Overrides} {
			if !one.has(string(kind)) {
				continue
			}
			value := one.object(string(kind)).JSON()
			w.Writes = append(w.Writes, model.Put{Target: target, Kind: kind, Value: value, Register: kind == model.Values})
			if kind == model.Overrides && c.own {
				f.err = refuse(http.StatusForbidden, "resources: overrides are not permitted to a node, values are")
				return reply{}, f.err
			}
		}
	}
	if len(*f.faults) == 0 && len(w.Writes) == 0 {
		f.wrong("resources", "nothing to write: must have values or overrides of one resource at least")
	}
	if len(*f.faults) > 0 {
		return reply{}, refuse(http.StatusBadRequest, "%s", strings.Join(*f.faults, "; "))
	}
	if err := a.register(c); err != nil {
		return reply{}, err
	}
	return a.write(c, w)
}
