package configdbapi

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

func getComponents(a *api, c *call) (reply, error) {
	all, err := a.backend.Components(c.Context(), c.reveals())
	r, err := answer(each(all, wholeComponent), err)
	for _, one := range all {
		r.Secret = r.Secret || c.shows(one.Definitions...)
	}
	return r, err
}

// shows reports whether an answer with these definitions may show secrets.
func (c *call) shows(ds ...model.Definition) bool {
	return c.reveals() && slices.ContainsFunc(ds, func(d model.Definition) bool { return d.Secret })
}

func getComponent(a *api, c *call) (reply, error) {
	one, err := a.backend.Component(c.Context(), c.id, c.reveals())
	r, err := answer(wholeComponent(one), err)
	r.Secret = c.shows(one.Definitions...)
	return r, err
}

// wholeComponent replaces a nil list of definitions: the JSON has [], never null.
func wholeComponent(c model.Component) model.Component {
	c.Definitions = list(c.Definitions)
	return c
}

func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// each applies whole to each element of a list.
func each[T any](all []T, whole func(T) T) []T {
	out := make([]T, len(all))
	for i := range all {
		out[i] = whole(all[i])
	}
	return out
}

func postComponent(a *api, c *call) (reply, error) {
	f, err := a.readFields(c)
	if err != nil {
		return reply{}, err
	}
	w := model.CreateComponent{ID: f.id("id"), Name: f.text("name"), Definitions: f.newDefinitions("resource_definitions")}
	return a.create(c, w, f, func(id int64) (reply, error) {
		c.id = id
		return getComponent(a, c)
	})
}

// create creates an object and answers with it.
func (a *api) create(c *call, w model.Write, f *fields, show func(id int64) (reply, error)) (reply, error) {
	if f.err != nil {
		return reply{}, f.err
	}
	done, err := a.written(c, w)
	if err != nil || c.Entry.DryRun {
		return answerWritten(done, err)
	}
	r, err := show(done.ID)
	r.Revision = done.Revision
	r.Add("Location", c.prefix+c.path+"/"+strconv.FormatInt(done.ID, 10))
	return numbered(r, 0, done.Revision), err
}

// answerWritten answers with the changes of a write or a dry run.
func answerWritten(done model.Written, err error) (reply, error) {
	r, err := answer(Done{Revision: done.Revision, Changed: done.Changed, Changes: list(done.Changes)}, err)
	r.Status = http.StatusOK
	return numbered(r, 0, done.Revision), err
}

// change executes a write that is answered with an empty body.
func (a *api) change(c *call, w model.Write) (reply, error) {
	done, err := a.written(c, w)
	if err != nil || c.Entry.DryRun {
		return answerWritten(done, err)
	}
	return numbered(reply{ETag: done.ETag, Revision: revisionOf(done)}, done.Version, done.Revision), nil
}

func revisionOf(done model.Written) uint64 {
	if !done.Changed {
		return 0
	}
	return done.Revision
}

// write executes a write that is answered with its changes.
func (a *api) write(c *call, w model.Write) (reply, error) {
	done, err := a.written(c, w)
	r, err := answerWritten(done, err)
	if !c.Entry.DryRun {
		r.ETag, r.Revision = done.ETag, revisionOf(done)
		r = numbered(r, done.Version, 0)
	}
	return r, err
}

// edit changes an existing object. If it does not exist, that error precedes the faults of the body.
func (a *api) edit(c *call, exists func() error, write func(*fields) model.Write) (reply, error) {
	f, err := a.readFields(c)
	var w model.Write
	if err == nil {
		w = write(f)
		err = f.err
	}
	if err != nil {
		return reply{}, either(exists(), err)
	}
	return a.change(c, w)
}

// either returns missing if it says that something does not exist, otherwise err.
func either(missing, err error) error {
	var fault *model.RequestError
	if errors.As(missing, &fault) && fault.Kind == model.NotFound {
		return missing
	}
	return err
}

func putComponent(a *api, c *call) (reply, error) {
	return a.edit(c, func() error { _, err := a.backend.Component(c.Context(), c.id, false); return err },
		func(f *fields) model.Write {
			return model.EditComponent{ID: c.id, Name: f.textIfThere("name"), Definitions: f.members("resource_definitions")}
		})
}

func deleteComponent(a *api, c *call) (reply, error) {
	return a.remove(c, model.DeleteComponent{ID: c.id})
}

func (a *api) remove(c *call, w model.Write) (reply, error) {
	if _, err := a.readBody(c); err != nil { // some clients send a body
		return reply{}, err
	}
	return a.change(c, w)
}

func getDefinitions(a *api, c *call) (reply, error) {
	var component **int64
	if text, ok := c.query.get("component_id"); ok {
		var of *int64
		if text != "" {
			id, ok := number(text)
			if !ok {
				return reply{}, refuse(http.StatusBadRequest, "component_id: invalid value %q: must be a number, or empty", text)
			}
			of = &id
		}
		component = &of
	}
	all, err := a.backend.Definitions(c.Context(), component, c.reveals())
	r, err := answer(list(all), err)
	r.Secret = c.shows(all...)
	return r, err
}

func getDefinition(a *api, c *call) (reply, error) {
	one, err := a.backend.Definition(c.Context(), c.id, c.reveals())
	r, err := answer(one, err)
	r.Secret = c.shows(one)
	return r, err
}

func postDefinition(a *api, c *call) (reply, error) {
	f, err := a.readFields(c)
	if err != nil {
		return reply{}, err
	}
	w := model.CreateDefinition{ID: f.id("id"), Name: f.text("name"), Component: f.id("component_id"),
		Content: f.value("content")}
	return a.create(c, w, f, func(id int64) (reply, error) {
		c.id = id
		return getDefinition(a, c)
	})
}

func (a *api) definitionExists(c *call) error {
	_, err := a.backend.Definition(c.Context(), c.id, false)
	return err
}

func putDefinition(a *api, c *call) (reply, error) {
	return a.edit(c, func() error { return a.definitionExists(c) }, func(f *fields) model.Write {
		w := model.EditDefinition{ID: c.id, Name: f.textIfThere("name")}
		if f.has("component_id") {
			of := f.id("component_id")
			w.Component = &of
		}
		if f.has("content") {
			content := f.value("content")
			w.Content = &content
		}
		return w
	})
}

func deleteDefinition(a *api, c *call) (reply, error) {
	return a.remove(c, model.DeleteDefinition{ID: c.id})
}

func getSecrets(a *api, c *call) (reply, error) {
	all, err := a.backend.Secrets(c.Context(), c.id)
	return answer(Secrets{list(all)}, err)
}

func putSecrets(a *api, c *call) (reply, error) {
	return a.edit(c, func() error { return a.definitionExists(c) }, func(f *fields) model.Write {
		return model.DeclareSecrets{ID: c.id, Keys: f.texts("secrets")}
	})
}

// contentKeys serves the keys operations on the content of a definition.
func contentKeys(op configdb.KeysOp) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		edit, err := a.readKeys(c, op)
		if err != nil {
			return reply{}, either(a.definitionExists(c), err)
		}
		if op != configdb.KeysGet {
			return a.change(c, model.EditContent{ID: c.id, Edit: edit})
		}
		d, err := a.backend.Definition(c.Context(), c.id, c.reveals())
		if err != nil {
			return reply{}, err
		}
		if d.Content == nil {
			d.Content = configdb.JSON("null")
		}
		done, err := rest.AcquireTurn(c.Context())
		if err != nil {
			return reply{}, err
		}
		defer done()
		found, err := Meter(c.Context()).Get(edit, d.Content)
		r, err := answer(list(found), err)
		r.Secret = c.shows(d)
		return r, err
	}
}

func (a *api) readKeys(c *call, op configdb.KeysOp) (configdb.KeysEdit, error) {
	text, err := a.readBody(c)
	if err != nil {
		return configdb.KeysEdit{}, err
	}
	v, err := c.parsed(text)
	if err != nil {
		return configdb.KeysEdit{}, err
	}
	return configdb.KeysEditOf(op, v)
}

func getEnvironments(a *api, c *call) (reply, error) {
	all, err := a.backend.Environments(c.Context())
	return answer(each(all, wholeEnvironment), err)
}

func wholeEnvironment(e model.Environment) model.Environment {
	e.Components, e.Levels = list(e.Components), list(e.Levels)
	return e
}

func getEnvironment(a *api, c *call) (reply, error) {
	one, err := a.backend.Environment(c.Context(), c.id)
	return answer(wholeEnvironment(one), err)
}

func postEnvironment(a *api, c *call) (reply, error) {
	f, err := a.readFields(c)
	if err != nil {
		return reply{}, err
	}
	w := model.CreateEnvironment{
		ID: f.id("id"), Components: f.refs("components"), Levels: f.levels("hierarchy_levels"),
		Nodes: model.Nodes{SelfRegistration: f.flag("self_registration"), StrictNodes: f.flag("strict_nodes")},
	}
	return a.create(c, w, f, func(id int64) (reply, error) {
		c.id = id
		return getEnvironment(a, c)
	})
}

func (a *api) environmentExists(c *call) error {
	_, err := a.backend.Environment(c.Context(), c.environment)
	return err
}

func putEnvironment(a *api, c *call) (reply, error) {
	c.environment = c.id
	return a.edit(c, func() error { return a.environmentExists(c) }, func(f *fields) model.Write {
		w := model.EditEnvironment{ID: c.id, SelfRegistration: f.flagIfThere("self_registration"),
			StrictNodes: f.flagIfThere("strict_nodes")}
		if f.has("components") {
			refs := f.refs("components")
			w.Components = &refs
		}
		if f.has("hierarchy_levels") {
			levels := f.levels("hierarchy_levels")
			w.Levels = &levels
		}
		return w
	})
}

func deleteEnvironment(a *api, c *call) (reply, error) {
	return a.remove(c, model.DeleteEnvironment{ID: c.id})
}

func getLevels(a *api, c *call) (reply, error) {
	all, err := a.backend.Levels(c.Context(), c.environment)
	return answer(each(all, wholeLevel), err)
}

func wholeLevel(l model.Level) model.Level {
	l.Values = list(l.Values)
	return l
}

func getLevel(a *api, c *call) (reply, error) {
	one, err := a.backend.Level(c.Context(), c.environment, refOf(c.name))
	return answer(wholeLevel(one), err)
}

func putLevel(a *api, c *call) (reply, error) {
	return a.edit(c, func() error {
		_, err := a.backend.Level(c.Context(), c.environment, refOf(c.name))
		return err
	}, func(f *fields) model.Write {
		return model.RenameLevel{Environment: c.environment, Level: refOf(c.name), Name: f.text("name")}
	})
}
