package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/layers"
)

// work is a document under migration, with the changes so far.
type work struct {
	doc     config.Object
	version string
	changes []Change
	faults  config.Faults
}

// move renames a key. A value at the new key wins, key by key if both are objects; an object and a value of another
// type are a fault.
func (w *work) move(from, to string) { w.convert(from, to, func(v any) (any, error) { return v, nil }) }

// convert moves a value and converts it.
func (w *work) convert(from, to string, how func(any) (any, error)) {
	source, target := strings.Split(from, "."), strings.Split(to, ".")
	v, has := config.Lookup(w.doc, source)
	if !has {
		return
	}
	out, err := how(v)
	if err != nil {
		w.faults.Add(source, err.Error(), "so that it can become "+to+" of "+w.version)
		return
	}
	w.put(out, source, target)
	w.doc = config.Prune(w.doc, source)
}

// drop removes an obsolete key.
func (w *work) drop(from string) {
	source := strings.Split(from, ".")
	if _, has := config.Lookup(w.doc, source); has {
		w.changes = append(w.changes, Change{Version: w.version, From: source})
		w.doc = config.Prune(w.doc, source)
	}
}

// put sets a value at a path unless the path already has one.
func (w *work) put(v any, from, to []string) {
	if at, kind := blocked(w.doc, to); at != nil {
		w.faults.Add(from, fmt.Sprintf("can't move to %s: %s has the invalid type %s", config.FormatPath(to),
			config.FormatPath(at),
			kind), "must be an object there")
		return
	}
	there, set := config.Lookup(w.doc, to)
	old, isObject := v.(config.Object)
	_, both := there.(config.Object)
	switch {
	case !set:
		w.doc = config.Set(w.doc, to, v)
		w.changes = append(w.changes, Change{Version: w.version, From: from, To: to})
	case isObject && both:
		if len(old) == 0 {
			w.changes = append(w.changes, Change{Version: w.version, From: from, To: to})
		}
		for _, key := range config.Keys(old) {
			w.put(old[key], config.Below(from, key), config.Below(to, key))
		}
	case isObject != both:
		w.faults.Add(from, fmt.Sprintf("invalid type %s, other than that of %s (%s)", config.KindOf(v), config.FormatPath(to),
			config.KindOf(there)), "must be the same kind in both")
	default:
		w.changes = append(w.changes, Change{Version: w.version, From: from, To: to, Kept: !config.Equal(v, there)})
	}
}

// blocked returns the first value on the way to a path that is not an object.
func blocked(doc config.Object, path []string) (at []string, kind string) {
	for n := 1; n < len(path); n++ {
		v, has := config.Lookup(doc, path[:n])
		if !has {
			return nil, ""
		}
		if _, ok := v.(config.Object); !ok {
			return path[:n], config.KindOf(v)
		}
	}
	return nil, ""
}

func (r Range) check(all []Migration) error {
	var families []string
	for _, m := range all {
		if f := layers.ParseSoftware(m.Version).Family; !slices.Contains(families, f) {
			families = append(families, f)
		}
	}
	for _, s := range []string{r.From, r.To} {
		if v := layers.ParseSoftware(s); s != "" && (len(v.Numbers) == 0 || !slices.Contains(families, v.Family)) {
			return fmt.Errorf("version %s: no migrations: must have %s and a number in it", config.Quote(s),
				strings.Join(families, " or "))
		}
	}
	if r.From != "" && r.To != "" && layers.ParseSoftware(r.From).Compare(layers.ParseSoftware(r.To)) > 0 {
		return errors.New("version " + config.Quote(r.From) + " is newer than " + config.Quote(r.To) +
			": configs are migrated to newer versions only")
	}
	return nil
}
