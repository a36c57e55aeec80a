package lint

import (
	"maps"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
)

// The rules of findings.
const (
	RuleUnknown = "unknown" // a field of a file has no metadata
	RuleDefault = "default" // a field of the metadata has no default
	RuleBase    = "base"    // a hardware file has no base file of its version
	RuleBoard   = "board"   // a board id is in two types, or hw_types.json has another fault
	RuleInvalid = "invalid" // a default violates its metadata
)

// Finding is one problem.
type Finding struct {
	Rule        string
	Path        []string // in the configuration; empty for a problem of a complete file
	Files       []string // the affected files, in natural order; none for the metadata
	Problem     string
	Expectation string
}

// Input holds the data to check. The names of files are relative to the base folder, without ".json".
type Input struct {
	Metadata *metadata.Metadata
	Base     map[string]config.Object
	Firmware map[string]config.Object
	Hardware map[string]map[string]config.Object // by type and version
	Types    config.Faults                       // faults of hw_types.json
}

// Folders of a base folder, for the file names in findings.
const (
	firmwareDir = "fw_versions/"
	hardwareDir = "hw_versions/"
	typesFile   = "hw_versions/hw_types"
)

// Check returns all findings. The same problem at the same path of several files is one finding. Findings are sorted by
// the order of the rules above, then by path and files.
func Check(in Input) []Finding {
	l := linter{in: in, found: map[string]*Finding{}}
	for _, version := range sortedNaturally(in.Base) {
		l.file(version, in.Base[version], nil)
	}
	for _, version := range sortedNaturally(in.Firmware) {
		l.file(firmwareDir+version, in.Firmware[version], nil)
	}
	for _, kind := range sortedNaturally(in.Hardware) {
		l.hardware(kind)
	}
	l.defaults(in.Metadata.Document(), nil, false)
	for _, f := range in.Types {
		l.add(Finding{RuleBoard, f.Path, []string{typesFile}, f.Problem, f.Expectation})
	}
	return l.sorted()
}

type linter struct {
	in    Input
	found map[string]*Finding // by rule, path and problem
}

func sortedNaturally[V any](m map[string]V) []string {
	return slices.SortedFunc(maps.Keys(m), layers.CompareNatural)
}

func (l *linter) add(f Finding) {
	key := strings.Join([]string{f.Rule, config.FormatPath(f.Path), f.Problem}, "\x00")
	if f.Rule == RuleBase {
		key += f.Files[0]
	}
	if old := l.found[key]; old != nil {
		old.Files = append(old.Files, f.Files...)
		return
	}
	l.found[key] = &f
}

func (l *linter) sorted() []Finding {
	rules := []string{RuleUnknown, RuleDefault, RuleBase, RuleBoard, RuleInvalid}
	out := make([]Finding, 0, len(l.found))
	for _, f := range l.found {
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b Finding) int {
		if a.Rule != b.Rule {
			return slices.Index(rules, a.Rule) - slices.Index(rules, b.Rule)
		}
		if c := slices.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		if c := slices.CompareFunc(a.Files, b.Files, layers.CompareNatural); c != 0 {
			return c
		}
		return strings.Compare(a.Problem, b.Problem)
	})
	return out
}

// file checks a file by itself or, if base is not nil, merged over base. Faults of base itself are not reported again.
func (l *linter) file(name string, o, base config.Object) {
	for _, path := range l.in.Metadata.Validate(o).Unknown {
		l.unknown(name, path)
	}
	whole, clashes := config.Merge(base, o)
	for _, c := range clashes {
		l.add(Finding{
			RuleInvalid, c.Path,
			[]string{name},
			config.InvalidType(config.KindOf(c.Above)) + " over an object of the base version", layers.MustBeObject,
		})
	}
	old := map[string]bool{}
	for _, f := range l.in.Metadata.Validate(base).Faults {
		old[f.Rule+"\x00"+config.FormatPath(f.Path)] = true
	}
	for _, f := range l.in.Metadata.Validate(whole).Faults {
		switch {
		case base != nil && old[f.Rule+"\x00"+config.FormatPath(f.Path)]:
		case f.Rule == metadata.RuleUnknown:
			l.unknown(name, f.Path)
		default:
			l.add(Finding{RuleInvalid, f.Path, []string{name}, f.Problem, f.Expectation})
		}
	}
}

func (l *linter) unknown(name string, path []string) {
	l.add(Finding{RuleUnknown, path, []string{name}, "no metadata", "every field must have an entry"})
}

// hardware checks the files of one type, each merged over the base layer that a node gets with it.
func (l *linter) hardware(kind string) {
	library := layers.Library{Base: sortedNaturally(l.in.Base)}
	for _, version := range sortedNaturally(l.in.Hardware[kind]) {
		name := hardwareDir + kind + "/" + version
		if _, has := l.in.Base[version]; !has {
			l.add(Finding{RuleBase, nil, []string{name}, "no base file of its version",
				"both must have a file for each supported version"})
		}
		base := l.in.Base[library.Choose(layers.Versions{Software: version}).Base]
		if base == nil {
			base = config.Object{}
		}
		l.file(name, l.in.Hardware[kind][version], base)
	}
}

// defaults finds the fields of metadata without a default: fields that no file sets and, below the free keys of a map,
// those without a default in the metadata. A field needs no default if its absence has a meaning: it is required,
// optional, read-only, deprecated or unsupported.
func (l *linter) defaults(doc config.Object, path []string, free bool) {
	if _, isEntry := doc["type"].(string); !isEntry {
		for _, key := range config.Keys(doc) {
			if below, ok := doc[key].(config.Object); ok {
				l.defaults(below, config.Below(path, key), free)
			}
		}
		return
	}
	properties := objectAt(doc, "objVal", "properties")
	switch {
	case isExcused(doc):
		return
	case !free && !l.occursInAnyFile(path):
		l.add(Finding{RuleDefault, path, nil, "no default", "must have a value in a base, firmware or hardware file"})
		return
	case free && properties == nil && doc["type"] != "MAP":
		if _, has := doc["default"]; !has {
			l.add(Finding{RuleDefault, path, nil, "no default",
				"below free keys must have a default in the metadata, or required, requiredWhen or optional"})
		}
		return
	}
	for _, key := range config.Keys(properties) {
		if below, ok := properties[key].(config.Object); ok {
			l.defaults(below, config.Below(path, key), free)
		}
	}
	value := objectAt(doc, "mapVal")
	if value["type"] == "MAP" || value["type"] == "OBJECT" { // its properties need defaults
		l.defaults(value, config.Below(path, metadata.AnyKey), true)
	}
}

func isExcused(doc config.Object) bool {
	for _, key := range []string{"required", "optional", "readOnly", "deprecated", "unsupported"} {
		if doc[key] == true {
			return true
		}
	}
	_, when := doc["requiredWhen"]
	return when
}

// occursInAnyFile reports whether any file has a value at a path.
func (l *linter) occursInAnyFile(path []string) bool {
	has := func(files map[string]config.Object) bool {
		for _, o := range files {
			if _, found := config.Lookup(o, path); found {
				return true
			}
		}
		return false
	}
	if has(l.in.Base) || has(l.in.Firmware) {
		return true
	}
	for _, files := range l.in.Hardware {
		if has(files) {
			return true
		}
	}
	return false
}

func objectAt(doc config.Object, path ...string) config.Object {
	v, _ := config.Lookup(doc, path)
	o, _ := v.(config.Object)
	return o
}
