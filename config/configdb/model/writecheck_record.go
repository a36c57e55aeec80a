package model

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"edgespan/config/configdb"
)

// subject is the half of a record that a write changes.
type subject struct {
	*site
	kind Kind
	now  halves
}

// find resolves the half of a record that a write changes and checks the write's preconditions.
func (wc *writeCheck) find(t Target, k Kind, register bool, ifMatch []string) (*subject, error) {
	if k != Values && k != Overrides {
		return nil, invalid("kind: invalid value %q: must be %q or %q", k, Values, Overrides)
	}
	at, f := wc.s.target(t)
	if f != nil {
		return nil, f
	}
	if f := wc.s.checkKnown(at); f != nil {
		return nil, f
	}
	w := &subject{at, k, at.environment.record(at.place(), at.definition.serial)}
	return w, wc.checkETags(w, ifMatch)
}

// checkETags returns an error unless a half has one of the caller's ETags.
func (wc *writeCheck) checkETags(w *subject, etags []string) error {
	if len(etags) == 0 {
		return nil
	}
	h := *w.now.half(w.kind)
	if len(etags) > MaxTags {
		return invalid("If-Match: too many tags (%d): must be at most %d", len(etags), MaxTags)
	}
	if slices.Contains(etags, wc.s.key.rawETag(w.kind, h, nil)) || h.SHA != "" && slices.Contains(etags, "*") ||
		len(w.definition.Secrets) > 0 && slices.Contains(etags, wc.s.key.rawETag(w.kind, h, w.definition.Secrets)) {
		return nil
	}
	if h.N == 0 {
		return fault(Stale, "%s of %q: were never written: If-Match names something else", w.kind, w.definition.Name)
	}
	r, err := wc.record(h.Revision)
	if err != nil {
		return err
	}
	if h.SHA == "" {
		return fault(Stale, "%s of %q: were removed by %s at %s (revision %d): If-Match names what they were before, or "+
			"something else",
			w.kind, w.definition.Name, r.Author, r.Time.Format(time.RFC3339), h.Revision)
	}
	return fault(Stale, "%s of %q: were written by %s at %s (revision %d, version %d): If-Match names what they were "+
		"before, or something else",
		w.kind, w.definition.Name, r.Author, r.Time.Format(time.RFC3339), h.Revision, h.version())
}

// record returns the record of a revision, which may be part of the same plan.
func (wc *writeCheck) record(n uint64) (Record, error) {
	if r, planned := wc.planned[n]; planned {
		return r, nil
	}
	rs, err := wc.s.readRecords(wc.src, []uint64{n})
	if err != nil || len(rs) == 0 {
		return Record{Revision: n, Author: "somebody"}, err
	}
	return rs[0], nil
}

// isObject reports whether a canonical value is an object.
func isObject(v configdb.JSON) bool { return bytes.HasPrefix(v, []byte("{")) }

func (wc *writeCheck) putRecords(w Put) error {
	to, err := wc.find(w.Target, w.Kind, w.Register, w.IfMatch)
	if err != nil {
		return err
	}
	if err := wc.noteUnmasked(to, w.Value); err != nil {
		return err
	}
	return wc.store(to, w.Value, w.Register)
}

// store writes a document as the newest version of a half.
func (wc *writeCheck) store(to *subject, v configdb.JSON, register bool) error {
	if !isObject(v) {
		return invalid("%s: not a JSON object: must be {…}", to.kind)
	}
	h := *to.now.half(to.kind)
	if secrets := to.definition.secrets(); len(secrets) > 0 && configdb.MayMask(v) {
		old, err := wc.readStored(h)
		if err != nil {
			return err
		}
		if v, err = wc.m.Unmask(v, old, secrets); err != nil {
			return documentError(err, secrets)
		}
	}
	if len(v) > MaxDocument {
		return tooLarge("%s: too long (%d bytes): must be at most %d", to.kind, len(v), MaxDocument)
	}
	if n := configdb.Values(v); n > configdb.MaxValues {
		return tooLarge("%s: too many values (%d): must be at most %d", to.kind, n, configdb.MaxValues)
	}
	if err := wc.register(to, register); err != nil {
		return err
	}
	if shaOf(v) == h.SHA && !wc.guessed {
		return wc.setUnchanged(to, h)
	}
	if to.environment.records >= MaxRecords && to.now == (halves{}) {
		return tooLarge("environment %d: has %d records: no more fit", to.environment.ID, MaxRecords)
	}
	if err := wc.checkNodeQuota(to, len(v)); err != nil {
		return err
	}
	return wc.writeVersion(to, half{SHA: wc.storeContent(v), Size: len(v)}, "changed")
}

// checkNodeQuota returns an error if a node's upload about itself exceeds the quota of the node or of its environment.
func (wc *writeCheck) checkNodeQuota(to *subject, size int) error {
	if !wc.own {
		return nil
	}
	e := wc.s.environments[to.environment.serial] // the newest: a bulk may have changed it
	p := to.place()
	more := int64(size) - e.record(p, to.definition.serial).uploadedBytes()
	rs, _ := e.places.get(p.name())
	if more <= 0 {
		return nil
	}
	if rs.uploadedBytes()+more > MaxOwn {
		return tooLarge("%s: node %s would have %d bytes of itself: must be at most %d in an environment", to.kind, p.value,
			rs.uploadedBytes()+more, MaxOwn)
	}
	if wc.quota > 0 && e.own+more > wc.quota {
		return tooLarge("environment %d: its nodes would have %d bytes of themselves: must be at most %d", e.ID, e.own+more,
			wc.quota)
	}
	return nil
}

// readStored returns the document of a half, or {}.
func (wc *writeCheck) readStored(h half) (configdb.JSON, error) {
	if h.SHA == "" {
		return configdb.JSON("{}"), nil
	}
	return wc.readBlob(h.SHA)
}

// register registers the node of an upload.
func (wc *writeCheck) register(to *subject, register bool) error {
	if !register || to.unknown == "" || to.kind != Values {
		return nil
	}
	return wc.putNode(PutNode{to.environment.ID, Node{ID: to.unknown, Undeclared: true}})
}

// setUnchanged sets the result of a write that changes nothing.
func (wc *writeCheck) setUnchanged(to *subject, h half) error {
	wc.written.ETag, wc.written.Version = wc.s.key.rawETag(to.kind, h, nil), to.now.Values.version()
	return nil
}

// writeVersion writes the next version of a half, or its removal.
func (wc *writeCheck) writeVersion(to *subject, h half, did string) error {
	was := *to.now.half(to.kind)
	h.N, h.Removals, h.Revision = was.N+1, was.Removals, wc.revision
	if h.Own, h.OwnCount, h.OwnBytes = wc.own, was.OwnCount, was.OwnBytes; h.Own {
		h.OwnCount, h.OwnBytes = h.OwnCount+1, h.OwnBytes+uint64(h.Size)
	}
	wc.written.Stored += h.Size
	if h.N == 1 {
		did = "created"
	}
	if h.SHA == "" {
		h.Removals++
	}
	next := to.now
	*next.half(to.kind) = h
	p, d := to.place(), to.definition
	if err := wc.put(p.versionKey(to.kind, d.serial, h.N), h); err != nil {
		return err
	}
	if err := wc.put(p.nowKey(d.serial), next); err != nil {
		return err
	}
	if err := wc.recordPaths(to); err != nil {
		return err
	}
	c := Change{What: string(to.kind), Did: did, Name: d.Name, Environment: to.environment.ID, Resource: d.ID,
		SHA256: h.SHA}
	if h.SHA != "" {
		c.Version = h.version()
	}
	if n := len(to.levels); n > 0 {
		c.Levels = slices.Clone(to.levels[n-1:])
	}
	wc.addChange(c)
	to.now = next
	return wc.setUnchanged(to, h)
}

// recordPaths records the level values above a place, which exist from now on even without records.
func (wc *writeCheck) recordPaths(to *subject) error {
	e := wc.s.environments[to.environment.serial] // the newest: a bulk may have changed it
	for _, p := range to.places[1:max(1, len(to.places)-1)] {
		if _, there := e.paths.get(p.name()); there {
			continue
		}
		if _, there := e.places.get(p.name()); there {
			continue
		}
		if err := wc.put(p.pathKey(), struct{}{}); err != nil {
			return err
		}
		e = wc.s.environments[to.environment.serial]
	}
	return nil
}

func (wc *writeCheck) editKeys(w EditKeys) error {
	to, err := wc.find(w.Target, w.Kind, w.Register, w.IfMatch)
	if err != nil {
		return err
	}
	h := *to.now.half(w.Kind)
	if to.now == (halves{}) && (w.Edit.Op != configdb.KeysSet || len(w.Edit.Items) == 0) {
		return notFound("%s of %q: were never written: must be a keys operation that sets a key", w.Kind,
			to.definition.Name)
	}
	if w.Edit.Op == configdb.KeysGet {
		return invalid("keys operation: is get, which writes nothing: must be set or delete")
	}
	doc, err := wc.readStored(h)
	if err != nil {
		return err
	}
	if err := wc.checkGuessKeys(to, w.Edit, doc); err != nil {
		return err
	}
	next, err := wc.m.Apply(w.Edit, doc)
	if err != nil {
		return documentError(err, to.definition.secrets())
	}
	if h.SHA == "" && bytes.Equal(doc, next) {
		return wc.setUnchanged(to, h) // still without a document
	}
	return wc.store(to, next, w.Register)
}

func (wc *writeCheck) removeRecord(w Remove) error {
	to, err := wc.find(w.Target, w.Kind, false, w.IfMatch)
	if err != nil {
		return err
	}
	if to.now.half(w.Kind).SHA == "" {
		return notFound("%s of %q: are not there", w.Kind, to.definition.Name)
	}
	return wc.writeVersion(to, half{}, "deleted")
}

// rollback restores an earlier state.
func (wc *writeCheck) rollback(w Rollback) error {
	if (w.Version == 0) == (w.Revision == 0) {
		return invalid("rollback: must be a version or a revision, from 1, and not both")
	}
	if w.Revision >= wc.revision {
		return notFound("revision %d: is not there: 1 to %d are", w.Revision, wc.revision-1)
	}
	if w.Resource != (Ref{}) {
		to, err := wc.find(w.Target, cmp.Or(w.Kind, Values), false, nil)
		if err != nil {
			return err
		}
		return wc.restoreHalf(to, w)
	}
	if w.Version != 0 {
		return invalid("rollback: of all resources of a place: has a version: must be a revision")
	}
	at, f := wc.s.site(w.Environment, w.Levels)
	if f != nil {
		return f
	}
	if f := wc.s.checkKnown(at); f != nil {
		return f
	}
	rs, _ := at.environment.places.get(at.place().name())
	if rs == nil {
		return nil
	}
	for _, d := range sortedValues(wc.s.definitions, func(a, b *definition) int { return cmp.Compare(a.ID, b.ID) }) {
		n, there := rs.m[d.serial]
		if !there || !at.environment.has(d) {
			continue
		}
		to := &subject{site: &site{environment: at.environment, levels: at.levels, places: at.places, definition: d}, now: n}
		for _, to.kind = range []Kind{Values, Overrides} {
			if err := wc.restoreHalf(to, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// restoreHalf restores an earlier state of one half.
func (wc *writeCheck) restoreHalf(to *subject, w Rollback) error {
	h := *to.now.half(to.kind)
	var was half
	var err error
	if w.Version != 0 {
		was, err = wc.s.version(wc.src, to.place(), to.definition, to.kind, w.Version, h)
	} else {
		was, err = wc.s.halfAsOf(wc.src, to.place(), to.definition, to.kind, w.Revision, h)
	}
	switch {
	case err != nil:
		return err
	case was.SHA == h.SHA && !wc.guessed:
		return wc.setUnchanged(to, h)
	case was.SHA == "":
		return wc.writeVersion(to, half{}, "deleted")
	}
	if err := wc.checkNodeQuota(to, was.Size); err != nil {
		return err
	}
	return wc.writeVersion(to, half{SHA: was.SHA, Size: was.Size}, "changed")
}
