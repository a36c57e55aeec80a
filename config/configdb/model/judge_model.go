package model

import (
	"slices"

	"edgespan/config/configdb"
)

// freeName returns a fault if a component's name is invalid or in use by a component other than but.
func (j *writeCheck) freeName(name string, but uint64) *RequestError {
	if f := checkName("component", name); f != nil {
		return f
	}
	for _, c := range j.s.components {
		if c.Name == name && c.serial != but {
			return taken("component", `name "`+name+`"`, c.ID)
		}
	}
	return nil
}

func (j *writeCheck) createComponent(w CreateComponent) error {
	if len(j.s.components) >= MaxThings || len(w.Definitions) > MaxMembers {
		return tooLarge("component: too many: must be at most %d components with %d resource_definitions", MaxThings,
			MaxMembers)
	}
	id, f := j.id("component", w.ID, &j.s.head.IDs.Component, j.s.byID.components)
	if f != nil {
		return f
	}
	if f := j.freeName(w.Name, 0); f != nil {
		return f
	}
	c := component{serial: j.serial(), ID: id, Name: w.Name}
	if err := j.put(serialKey(folderComponents, c.serial), c); err != nil {
		return err
	}
	j.changed(Change{What: "component", Did: "created", ID: id, Name: w.Name})
	for _, d := range w.Definitions {
		if err := j.createDefinition(CreateDefinition{Name: d.Name, Component: &id, Content: d.Content}); err != nil {
			return err
		}
	}
	j.written.ID = id
	return nil
}

func (j *writeCheck) editComponent(w EditComponent) error {
	c, f := j.s.component(w.ID)
	if f != nil {
		return f
	}
	if w.Name != nil && *w.Name != c.Name {
		if f := j.freeName(*w.Name, c.serial); f != nil {
			return f
		}
		next := *c
		next.Name = *w.Name
		if err := j.put(serialKey(folderComponents, c.serial), next); err != nil {
			return err
		}
		j.changed(Change{What: "component", Did: "changed", ID: c.ID, Name: next.Name})
	}
	if w.Definitions == nil {
		return nil
	}
	return j.members(c, *w.Definitions)
}

// members assigns definitions to a component and deletes its definitions that are left out.
func (j *writeCheck) members(c *component, ids []int64) error {
	if len(ids) > MaxMembers {
		return tooLarge("component %d: too many resource_definitions (%d): must be at most %d", c.ID, len(ids), MaxMembers)
	}
	for _, id := range ids {
		d, f := j.s.definition(id)
		if f != nil {
			return f
		}
		if d.Component == c.serial {
			continue
		}
		next := *d
		next.Component = c.serial
		if err := j.putDefinition(next, "changed"); err != nil {
			return err
		}
	}
	for _, d := range j.s.members(c.serial) {
		if slices.Contains(ids, d.ID) {
			continue
		}
		if err := j.deleteDefinition(DeleteDefinition{d.ID}); err != nil {
			return err
		}
	}
	return nil
}

// deleteComponent deletes a component, which hides its definitions.
func (j *writeCheck) deleteComponent(w DeleteComponent) error {
	c, f := j.s.component(w.ID)
	if f != nil {
		return f
	}
	j.changed(Change{What: "component", Did: "deleted", ID: c.ID, Name: c.Name})
	return j.remove(serialKey(folderComponents, c.serial))
}

func (j *writeCheck) putDefinition(d definition, did string) error {
	if err := j.put(serialKey(folderDefinitions, d.serial), d); err != nil {
		return err
	}
	j.changed(Change{What: "definition", Did: did, ID: d.ID, Name: d.Name})
	return nil
}

func (j *writeCheck) createDefinition(w CreateDefinition) error {
	if len(j.s.definitions) >= MaxThings {
		return tooLarge("resource_definition: too many: must be at most %d", MaxThings)
	}
	id, f := j.id("resource_definition", w.ID, &j.s.head.IDs.Definition, j.s.byID.definitions)
	if f != nil {
		return f
	}
	if f := checkName("resource_definition", w.Name); f != nil {
		return f
	}
	d := definition{serial: j.serial(), ID: id, Name: w.Name}
	if w.Component != nil {
		c, f := j.s.component(*w.Component)
		if f != nil {
			return f
		}
		d.Component = c.serial
	}
	if err := j.setContent(&d, w.Content, false); err != nil {
		return err
	}
	j.written.ID = id
	return j.putDefinition(d, "created")
}

// setContent sets the content of a definition.
func (j *writeCheck) setContent(d *definition, v configdb.JSON, edited bool) error {
	if len(v) > MaxDocument {
		return tooLarge("content of resource_definition %q: too long (%d bytes): must be at most %d", d.Name, len(v),
			MaxDocument)
	}
	next := content{Revision: j.revision}
	if v != nil && string(v) != "null" {
		if n := configdb.Values(v); n > configdb.MaxValues {
			return tooLarge("content of resource_definition %q: too many values (%d): must be at most %d", d.Name, n,
				configdb.MaxValues)
		}
		template, is := formOfContent(d, v, edited)
		if is != formOpaque {
			refs, err := j.m.References(template)
			if err != nil {
				return ofDocument(err, nil)
			}
			next.References = refs
		}
		next.SHA, next.Size, next.Form = j.storeContent(v), len(v), is
	}
	if d.content(0).SHA == next.SHA {
		return nil
	}
	d.Contents = append(slices.Clone(d.Contents), next)
	d.Contents = d.Contents[max(0, len(d.Contents)-keptContents):]
	return nil
}

// formOfContent returns the form of a new content and the part of it that is a template: the object below the marker.
// An edit of keys keeps the form of a content from an earlier release.
func formOfContent(d *definition, v configdb.JSON, edited bool) (configdb.JSON, form) {
	if inner, is := templateOf(v); is {
		return inner, formTemplate
	}
	if was := d.content(0); edited && was.SHA != "" && was.Form == formOld {
		return v, formOld
	}
	return nil, formOpaque
}

func (j *writeCheck) editDefinition(w EditDefinition) error { return j.changeDefinition(w, false) }

// changeDefinition applies an edit; edited reports that the new content is the previous one with other keys.
func (j *writeCheck) changeDefinition(w EditDefinition, edited bool) error {
	was, f := j.s.definition(w.ID)
	if f != nil {
		return f
	}
	d := *was
	if w.Name != nil {
		if f := checkName("resource_definition", *w.Name); f != nil {
			return f
		}
		d.Name = *w.Name
	}
	if w.Component != nil {
		d.Component = 0
		if *w.Component != nil {
			c, f := j.s.component(**w.Component)
			if f != nil {
				return f
			}
			d.Component = c.serial
		}
	}
	if w.Content != nil {
		if err := j.setContent(&d, *w.Content, edited); err != nil {
			return err
		}
	}
	if d.Name == was.Name && d.Component == was.Component && len(d.Contents) == len(was.Contents) &&
		d.content(0).Revision == was.content(0).Revision {
		return nil
	}
	return j.putDefinition(d, "changed")
}

func (j *writeCheck) editContent(w EditContent) error {
	was, f := j.s.definition(w.ID)
	if f != nil {
		return f
	}
	var doc configdb.JSON
	if sha := was.content(0).SHA; sha != "" {
		var err error
		if doc, err = j.blob(sha); err != nil {
			return err
		}
	}
	next, err := j.m.Apply(w.Edit, doc)
	if err != nil {
		return ofDocument(err, nil)
	}
	return j.changeDefinition(EditDefinition{ID: w.ID, Content: &next}, true)
}

func (j *writeCheck) deleteDefinition(w DeleteDefinition) error {
	d, f := j.s.definition(w.ID)
	if f != nil {
		return f
	}
	j.changed(Change{What: "definition", Did: "deleted", ID: d.ID, Name: d.Name})
	return j.remove(serialKey(folderDefinitions, d.serial))
}

func (j *writeCheck) declareSecrets(w DeclareSecrets) error {
	was, f := j.s.definition(w.ID)
	if f != nil {
		return f
	}
	if len(w.Keys) > MaxSecrets {
		return tooLarge("secrets of resource_definition %d: too many (%d): must be at most %d", w.ID, len(w.Keys), MaxSecrets)
	}
	for _, k := range w.Keys {
		if len(k) > maxMessage {
			return tooLarge("secrets of resource_definition %d: one is too long (%d bytes): must be at most %d", w.ID, len(k),
				maxMessage)
		}
		if _, err := configdb.ParseSecret(k); err != nil {
			return ofDocument(err, nil)
		}
	}
	next := *was
	next.Secrets = slices.Compact(slices.Sorted(slices.Values(w.Keys)))
	if slices.Equal(next.Secrets, was.Secrets) {
		return nil
	}
	return j.putDefinition(next, "changed")
}

// secrets returns the declared secrets of a definition.
func (d *definition) secrets() []configdb.Secret { return parsed(d.Secrets) }

// parsed parses declared keys, which declareSecrets has validated.
func parsed(keys []string) []configdb.Secret {
	var out []configdb.Secret
	for _, k := range keys {
		if s, err := configdb.ParseSecret(k); err == nil {
			out = append(out, s)
		}
	}
	return out
}
