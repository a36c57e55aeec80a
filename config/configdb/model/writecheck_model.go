package model

import (
	"slices"

	"edgespan/config/configdb"
)

// checkFreeName returns a fault if a component's name is invalid or in use by a component other than but.
func (wc *writeCheck) checkFreeName(name string, but uint64) *RequestError {
	if f := checkName("component", name); f != nil {
		return f
	}
	for _, c := range wc.s.components {
		if c.Name == name && c.serial != but {
			return alreadyTaken("component", `name "`+name+`"`, c.ID)
		}
	}
	return nil
}

func (wc *writeCheck) createComponent(w CreateComponent) error {
	if len(wc.s.components) >= MaxThings || len(w.Definitions) > MaxMembers {
		return tooLarge("component: too many: must be at most %d components with %d resource_definitions", MaxThings,
			MaxMembers)
	}
	id, f := wc.chooseID("component", w.ID, &wc.s.head.IDs.Component, wc.s.byID.components)
	if f != nil {
		return f
	}
	if f := wc.checkFreeName(w.Name, 0); f != nil {
		return f
	}
	c := component{serial: wc.nextSerial(), ID: id, Name: w.Name}
	if err := wc.put(serialKey(folderComponents, c.serial), c); err != nil {
		return err
	}
	wc.addChange(Change{What: "component", Did: "created", ID: id, Name: w.Name})
	for _, d := range w.Definitions {
		if err := wc.createDefinition(CreateDefinition{Name: d.Name, Component: &id, Content: d.Content}); err != nil {
			return err
		}
	}
	wc.written.ID = id
	return nil
}

func (wc *writeCheck) editComponent(w EditComponent) error {
	c, f := wc.s.component(w.ID)
	if f != nil {
		return f
	}
	if w.Name != nil && *w.Name != c.Name {
		if f := wc.checkFreeName(*w.Name, c.serial); f != nil {
			return f
		}
		next := *c
		next.Name = *w.Name
		if err := wc.put(serialKey(folderComponents, c.serial), next); err != nil {
			return err
		}
		wc.addChange(Change{What: "component", Did: "changed", ID: c.ID, Name: next.Name})
	}
	if w.Definitions == nil {
		return nil
	}
	return wc.assignMembers(c, *w.Definitions)
}

// assignMembers assigns definitions to a component and deletes its definitions that are left out.
func (wc *writeCheck) assignMembers(c *component, ids []int64) error {
	if len(ids) > MaxMembers {
		return tooLarge("component %d: too many resource_definitions (%d): must be at most %d", c.ID, len(ids), MaxMembers)
	}
	for _, id := range ids {
		d, f := wc.s.definition(id)
		if f != nil {
			return f
		}
		if d.Component == c.serial {
			continue
		}
		next := *d
		next.Component = c.serial
		if err := wc.putDefinition(next, "changed"); err != nil {
			return err
		}
	}
	for _, d := range wc.s.members(c.serial) {
		if slices.Contains(ids, d.ID) {
			continue
		}
		if err := wc.deleteDefinition(DeleteDefinition{d.ID}); err != nil {
			return err
		}
	}
	return nil
}

// deleteComponent deletes a component, which hides its definitions.
func (wc *writeCheck) deleteComponent(w DeleteComponent) error {
	c, f := wc.s.component(w.ID)
	if f != nil {
		return f
	}
	wc.addChange(Change{What: "component", Did: "deleted", ID: c.ID, Name: c.Name})
	return wc.remove(serialKey(folderComponents, c.serial))
}

func (wc *writeCheck) putDefinition(d definition, did string) error {
	if err := wc.put(serialKey(folderDefinitions, d.serial), d); err != nil {
		return err
	}
	wc.addChange(Change{What: "definition", Did: did, ID: d.ID, Name: d.Name})
	return nil
}

func (wc *writeCheck) createDefinition(w CreateDefinition) error {
	if len(wc.s.definitions) >= MaxThings {
		return tooLarge("resource_definition: too many: must be at most %d", MaxThings)
	}
	id, f := wc.chooseID("resource_definition", w.ID, &wc.s.head.IDs.Definition, wc.s.byID.definitions)
	if f != nil {
		return f
	}
	if f := checkName("resource_definition", w.Name); f != nil {
		return f
	}
	d := definition{serial: wc.nextSerial(), ID: id, Name: w.Name}
	if w.Component != nil {
		c, f := wc.s.component(*w.Component)
		if f != nil {
			return f
		}
		d.Component = c.serial
	}
	if err := wc.setContent(&d, w.Content, false); err != nil {
		return err
	}
	wc.written.ID = id
	return wc.putDefinition(d, "created")
}

// setContent sets the content of a definition.
func (wc *writeCheck) setContent(d *definition, v configdb.JSON, edited bool) error {
	if len(v) > MaxDocument {
		return tooLarge("content of resource_definition %q: too long (%d bytes): must be at most %d", d.Name, len(v),
			MaxDocument)
	}
	next := content{Revision: wc.revision}
	if v != nil && string(v) != "null" {
		if n := configdb.Values(v); n > configdb.MaxValues {
			return tooLarge("content of resource_definition %q: too many values (%d): must be at most %d", d.Name, n,
				configdb.MaxValues)
		}
		template, form := formOfContent(d, v, edited)
		if form != formOpaque {
			refs, err := wc.m.References(template)
			if err != nil {
				return documentError(err, nil)
			}
			next.References = refs
		}
		next.SHA, next.Size, next.Form = wc.storeContent(v), len(v), form
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
	if inner, ok := templateOf(v); ok {
		return inner, formTemplate
	}
	if was := d.content(0); edited && was.SHA != "" && was.Form == formOld {
		return v, formOld
	}
	return nil, formOpaque
}

func (wc *writeCheck) editDefinition(w EditDefinition) error { return wc.changeDefinition(w, false) }

// changeDefinition applies an edit; edited reports that the new content is the previous one with other keys.
func (wc *writeCheck) changeDefinition(w EditDefinition, edited bool) error {
	was, f := wc.s.definition(w.ID)
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
			c, f := wc.s.component(**w.Component)
			if f != nil {
				return f
			}
			d.Component = c.serial
		}
	}
	if w.Content != nil {
		if err := wc.setContent(&d, *w.Content, edited); err != nil {
			return err
		}
	}
	if d.Name == was.Name && d.Component == was.Component && len(d.Contents) == len(was.Contents) &&
		d.content(0).Revision == was.content(0).Revision {
		return nil
	}
	return wc.putDefinition(d, "changed")
}

func (wc *writeCheck) editContent(w EditContent) error {
	was, f := wc.s.definition(w.ID)
	if f != nil {
		return f
	}
	var doc configdb.JSON
	if sha := was.content(0).SHA; sha != "" {
		var err error
		if doc, err = wc.readBlob(sha); err != nil {
			return err
		}
	}
	next, err := wc.m.Apply(w.Edit, doc)
	if err != nil {
		return documentError(err, nil)
	}
	return wc.changeDefinition(EditDefinition{ID: w.ID, Content: &next}, true)
}

func (wc *writeCheck) deleteDefinition(w DeleteDefinition) error {
	d, f := wc.s.definition(w.ID)
	if f != nil {
		return f
	}
	wc.addChange(Change{What: "definition", Did: "deleted", ID: d.ID, Name: d.Name})
	return wc.remove(serialKey(folderDefinitions, d.serial))
}

func (wc *writeCheck) declareSecrets(w DeclareSecrets) error {
	was, f := wc.s.definition(w.ID)
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
			return documentError(err, nil)
		}
	}
	next := *was
	next.Secrets = slices.Compact(slices.Sorted(slices.Values(w.Keys)))
	if slices.Equal(next.Secrets, was.Secrets) {
		return nil
	}
	return wc.putDefinition(next, "changed")
}

// secrets returns the declared secrets of a definition.
func (d *definition) secrets() []configdb.Secret { return parseSecrets(d.Secrets) }

// parseSecrets parses declared keys, which declareSecrets has validated.
func parseSecrets(keys []string) []configdb.Secret {
	var out []configdb.Secret
	for _, k := range keys {
		if s, err := configdb.ParseSecret(k); err == nil {
			out = append(out, s)
		}
	}
	return out
}
