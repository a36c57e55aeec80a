package ops

import (
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/fleet/controllerconf"
	"edgespan/config/fleet/history"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
)

// The configuration files of the controller and the aggregator are layers without layering: e2e/<file> holds the values
// that all replicas share, and the other values of replicas without a part of their own; e2e/<file>/<replica> is the
// part of one replica, which then takes all values that are not shared from it alone.

// controllerFile is the file of the program that validates.
const controllerFile = "controller"

func fileLayer(file, replica string) history.Layer {
	if replica != "" {
		file += "/" + replica
	}
	return history.Layer{Kind: history.E2E, Name: file}
}

// fileOf returns the file and the replica of a layer.
func fileOf(l history.Layer) (file, replica string) {
	file, replica, _ = strings.Cut(l.Name, "/")
	return file, replica
}

// replicaFile returns a replica's file: the shared values and the replica's part.
func replicaFile(m *metadata.Metadata, shared, own config.Object) config.Object {
	if own == nil {
		return shared
	}
	all := controllerconf.Shared(m, shared)
	_, owned := m.Split(own)
	out, _ := config.Merge(all, owned)
	return out
}

func (s *Snapshot) file(name string) (*metadata.Metadata, error) {
	m, known := s.E2E[name]
	if !known || m == nil {
		return nil, &NotFoundError{"file " + config.Quote(name), "must be controller or aggregator"}
	}
	return m, nil
}

// File returns the file of the controller or the aggregator as a replica sees it; with replica "" it returns the file
// without the part of any replica.
func (s *Snapshot) File(file, replica string, reveal bool) (DocumentAnswer, error) {
	m, err := s.file(file)
	if err != nil {
		return DocumentAnswer{}, err
	}
	shared, own, err := s.newCheck().parts(file, replica)
	if err != nil {
		return DocumentAnswer{}, err
	}
	return s.document(m, replicaFile(m, shared.Document, own.Document), max(shared.Revision, own.Revision), reveal), nil
}

// FileChange returns how a replica's file differs between two states, since other replicas write the shared values too.
func (s *Snapshot) FileChange(file, replica string, before history.State) (controllerconf.Change, error) {
	m, err := s.file(file)
	if err != nil {
		return controllerconf.Change{}, err
	}
	var docs [2]config.Object
	for i, state := range []history.State{before, s.State} {
		past := *s
		past.State = state
		shared, own, err := past.newCheck().parts(file, replica)
		if err != nil {
			return controllerconf.Change{}, err
		}
		docs[i] = normalForm(replicaFile(m, shared.Document, own.Document))
	}
	return controllerconf.Changes(m, docs[0], docs[1]), nil
}

func (ck *check) parts(file, replica string) (shared, own history.Version, err error) {
	if shared, err = ck.layer(fileLayer(file, "")); err != nil || replica == "" {
		return shared, own, err
	}
	own, err = ck.layer(fileLayer(file, replica))
	return shared, own, err
}

// normalForm returns the normal form of a stored file, or the file itself if it has none.
func normalForm(doc config.Object) config.Object {
	if out, faults := controllerconf.Normalize(doc); len(faults) == 0 {
		return out
	}
	return doc
}

// setE2E writes a file: the shared values for all replicas, the rest for one.
func (ck *check) setE2E(q SetE2E) (WriteOutcome, error) {
	m, err := ck.file(q.File)
	if err != nil {
		return WriteOutcome{}, err
	}
	shared, own, err := ck.parts(q.File, q.Replica)
	if err != nil {
		return WriteOutcome{}, err
	}
	before := normalForm(replicaFile(m, shared.Document, own.Document))
	request := q.Config
	if request == nil {
		request = config.Object{}
	}
	var faults override.WriteFaults
	if asked, wrong := controllerconf.Normalize(request); len(wrong) == 0 {
		request = asked
	}
	after, wrong := override.File(m, overrideOp(q.Modify), before, request)
	faults = append(faults, wrong...)
	if after == nil { // report all faults at once, including those of the request itself
		after = request
	}
	checked, unknown, more := controllerconf.Check(m, after)
	program, notes := ck.checkProgram(q.File, before, checked, true)
	faults = append(faults, faultsOf(RuleFile, nil, append(more, program...))...)
	if len(faults) > 0 {
		return WriteOutcome{}, refuse(faults)
	}
	c := history.Change{Layers: map[history.Layer]config.Object{}}
	others, err := ck.splitFile(c, m, q, shared.Document, own.Document, checked)
	if err != nil {
		return WriteOutcome{}, err
	}
	if err := ck.dropSame(c); err != nil {
		return WriteOutcome{}, err
	}
	if len(others) > 0 {
		return WriteOutcome{}, refuse(others)
	}
	o := ck.newOutcome(c, nil, nil, nil)
	if len(c.Layers) > 0 {
		o.Message = "Success. The file of the " + q.File + " changes."
	}
	for _, path := range unknown {
		o.Unknown = append(o.Unknown, config.Below([]string{q.File}, path...))
	}
	change := controllerconf.Changes(m, before, checked)
	o.Actions, o.Flags = change.Actions, change.Flags
	o.Warnings = append(append(o.Warnings, notes...), nextStart(q.File, change, notes)...)
	if q.Replica == "" {
		shadowed, err := ck.overrideNotes(q.File, m, checked)
		if err != nil {
			return WriteOutcome{}, err
		}
		o.Warnings = append(o.Warnings, shadowed...)
	}
	return o, nil
}

// checkProgram returns the program's faults and notes about a change of its file that the metadata accepts.
func (ck *check) checkProgram(file string, before, after config.Object, asked bool) (config.Faults, []string) {
	if file != controllerFile || ck.Own == nil || after == nil {
		return nil, nil
	}
	return ck.Own(before, after, asked)
}

// overrideNotes reports values for all replicas that some replicas override.
func (ck *check) overrideNotes(file string, m *metadata.Metadata, doc config.Object) ([]string, error) {
	all, err := ck.State.LayersOfKind(history.E2E)
	if err != nil {
		return nil, err
	}
	_, apart := m.Split(doc)
	var out []string
	for _, v := range all {
		f, replica := fileOf(v.Layer)
		if f != file || replica == "" || v.Document == nil {
			continue
		}
		_, owned := m.Split(v.Document)
		for _, path := range leaves(config.FullDiff(apart, owned), nil) {
			if _, given := config.Lookup(apart, path); given {
				out = append(out, file+": "+config.FormatPath(path)+": replica "+config.Quote(replica)+
					" has its own, which stays: a write for that replica changes it")
			}
		}
	}
	return out, nil
}

// leaves returns the paths of a document's values.
func leaves(v any, at []string) [][]string {
	o, ok := v.(config.Object)
	if !ok || len(o) == 0 && len(at) > 0 {
		return [][]string{at}
	}
	var out [][]string
	for _, key := range config.Keys(o) {
		out = append(out, leaves(o[key], config.Below(at, key))...)
	}
	return out
}

// dropOwnPart deletes this replica's part of an imported file: the file contains it.
func (ck *check) dropOwnPart(c history.Change, f history.Files) error {
	for file, doc := range f.E2E {
		l := fileLayer(file, ck.Replica)
		if doc == nil || ck.Replica == "" {
			continue
		}
		own, err := ck.layer(l)
		if err != nil {
			return err
		}
		if own.Document != nil {
			c.Layers[l] = nil
		}
	}
	return nil
}

// nextStart reports changes that take effect at the next start, except those that the program has already commented on,
// which never take effect.
func nextStart(file string, c controllerconf.Change, notes []string) []string {
	var out []string
	for _, path := range c.NextStart {
		if slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, config.FormatPath(path)+": ") }) {
			continue
		}
		out = append(out, file+": "+config.FormatPath(path)+": counts from the next start")
	}
	return out
}

// splitFile splits a file between the layers, and updates the parts of the other replicas: removing an entry of a map
// removes their values in it too. It returns the faults that this causes in their files.
func (ck *check) splitFile(c history.Change, m *metadata.Metadata, q SetE2E, shared, own,
	file config.Object) (override.WriteFaults, error) {
	if q.Replica == "" {
		c.Layers[fileLayer(q.File, "")] = file
		return nil, nil
	}
	theirs, owned := m.Split(file)
	joined, wrong := controllerconf.Join(m, shared, theirs)
	faults := faultsOf(RuleFile, nil, wrong)
	c.Layers[fileLayer(q.File, "")] = joined
	if _, apart := m.Split(shared); own != nil || len(owned) > 0 || len(apart) > 0 {
		c.Layers[fileLayer(q.File, q.Replica)] = owned
	}
	all, err := ck.State.LayersOfKind(history.E2E)
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		file, replica := fileOf(v.Layer)
		if file != q.File || replica == "" || replica == q.Replica || v.Document == nil {
			continue
		}
		was := normalForm(replicaFile(m, shared, v.Document))
		now, wrong := controllerconf.Join(m, was, theirs)
		if len(wrong) == 0 {
			if _, _, before := controllerconf.Check(m, was); len(before) == 0 {
				_, _, wrong = controllerconf.Check(m, now)
			}
		}
		faults = append(faults, faultsOf(RuleFile, []string{v.Layer.Name}, wrong)...)
		_, part := m.Split(now)
		c.Layers[v.Layer] = part
	}
	return faults, nil
}

// filesChange holds the effects of a change of several layers on the controller's files.
type filesChange struct {
	faults  override.WriteFaults
	unknown [][]string
	notes   []string
	actions []metadata.Action
	flags   []controllerconf.FlagChange
}

// checkFiles checks the files that a change writes and returns the effects.
func (ck *check) checkFiles(c history.Change) (filesChange, error) {
	var out filesChange
	for _, l := range sortedLayers(c.Layers) {
		if l.Kind != history.E2E {
			continue
		}
		file, replica := fileOf(l)
		m, err := ck.file(file)
		if err != nil {
			return out, err
		}
		shared, own, err := ck.parts(file, replica)
		if err != nil {
			return out, err
		}
		before := replicaFile(m, shared.Document, own.Document)
		if doc, written := c.Layers[fileLayer(file, "")]; written {
			shared.Document = doc
		}
		if replica != "" {
			own.Document = c.Layers[l]
		}
		after := replicaFile(m, shared.Document, own.Document)
		if after == nil {
			after = config.Object{}
		}
		checked, unknown, faults := controllerconf.Check(m, after)
		more, notes := ck.checkProgram(file, normalForm(before), checked, false)
		out.notes = append(out.notes, notes...)
		if faults = append(faults, more...); len(faults) > 0 {
			out.faults = append(out.faults, faultsOf(RuleFile, []string{l.Name}, faults)...)
			continue
		}
		for _, path := range unknown {
			out.unknown = append(out.unknown, config.Below([]string{l.Name}, path...))
		}
		if replica == "" { // each replica derives the effects on its own part itself
			change := controllerconf.Changes(m, normalForm(before), checked)
			out.actions, out.flags = append(out.actions, change.Actions...), append(out.flags, change.Flags...)
			out.notes = append(out.notes, nextStart(file, change, notes)...)
		}
	}
	return out, nil
}

func sortedLayers(m map[history.Layer]config.Object) []history.Layer {
	var out []history.Layer
	for l := range m {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b history.Layer) int { return strings.Compare(a.String(), b.String()) })
	return out
}
