package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a YAML or JSON document. They bound the work that a hostile document can cause.
const (
	maxDocument      = 4 << 20 // bytes
	maxDocumentDepth = 32
)

// Document is a mapping that was read from YAML or JSON, with the numbers as they were written.
type Document struct {
	Object  Object
	spelled *spellings // nil: all numbers have their canonical form
}

// Number returns the number at a path as it was written if its canonical form differs: merging reads 010 as 10, but a
// schema may refuse it.
func (d Document) Number(path []string, v any) string {
	if text, ok := d.spelled.find(path); ok {
		return text
	}
	if i, ok := v.(int64); ok {
		return strconv.FormatInt(i, 10)
	}
	return string(AppendCanonical(nil, v))
}

// Unsupported returns the values that no configuration may contain: lists, and numbers that JSON can't express.
func (d Document) Unsupported() Faults {
	faults := d.spelled.invalidKeys()
	reportLists(d.Object, nil, false, &faults)
	faults.Sort()
	return faults
}

const explicitMapping = "must be an explicit mapping; {} removes everything"

// ReadDocument reads a document that is one mapping of YAML or JSON in UTF-8, with at most 4 MiB and 32 levels. It
// reports duplicate keys as faults and uses the first of them; with any other fault it returns no object.
func ReadDocument(text []byte) (Document, Faults) {
	var faults Faults
	switch {
	case len(text) > maxDocument:
		faults.Add(nil, TooLong(len(text), "bytes"), AtMost(maxDocument))
		return Document{}, faults
	case !utf8.Valid(text):
		faults.Add(nil, "not UTF-8", "must be YAML or JSON in UTF-8")
		return Document{}, faults
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	d := Document{spelled: &spellings{}}
	v, err := any(nil), error(nil)
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) > 0 && start[0] == '{' && json.Valid(text) {
		p := parser{text: text, maxDepth: maxDocumentDepth, spelled: d.spelled}
		v, err = p.readValue()
		faults = p.faults
	} else {
		v, err = d.readYAML(string(text), &faults)
	}
	switch o, ok := v.(Object); {
	case err != nil:
		return Document{}, Faults{{Problem: err.Error(),
			Expectation: "must be one YAML or JSON mapping"}}
	case v == nothing:
		return Document{}, Faults{{Problem: "the document is empty", Expectation: explicitMapping}}
	case !ok:
		return Document{}, Faults{{Problem: InvalidType(YAMLTypeName(v)), Expectation: explicitMapping}}
	default:
		d.Object = o
	}
	faults.Sort()
	return d, faults
}

// nothing is the value of a text without a document.
var nothing any = struct{}{}

// YAMLTypeName names the type of a value in YAML's words.
func YAMLTypeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int64, float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	}
	return "a mapping"
}

// ReadObject reads a document without checking its meaning, for callers that merge it with others. Lists are faults.
func ReadObject(text []byte) (Object, Faults) { return readObject(text, false) }

// ReadObjectWithLists is like ReadObject for files that may contain lists of scalars.
func ReadObjectWithLists(text []byte) (Object, Faults) { return readObject(text, true) }

func readObject(text []byte, lists bool) (Object, Faults) {
	d, faults := ReadDocument(text)
	if d.Object == nil {
		return nil, faults
	}
	faults = append(faults, d.spelled.invalidKeys()...)
	reportLists(d.Object, nil, lists, &faults)
	if len(faults) > 0 {
		faults.Sort()
		return nil, faults
	}
	return d.Object, nil
}

// reportLists reports the lists of an object as faults; with scalars set it allows lists of scalars.
func reportLists(o Object, path []string, scalars bool, faults *Faults) {
	for key, v := range o {
		switch v := v.(type) {
		case Object:
			reportLists(v, append(path, key), scalars, faults)
		case []any:
			if !scalars {
				faults.Add(Below(path, key), InvalidType("list"), "must be a mapping by name or a comma-separated string")
				continue
			}
			for i, item := range v {
				if !isComparable(item) {
					faults.Add(Below(path, key, strconv.Itoa(i)), InvalidType(YAMLTypeName(item)), "must be a scalar in a list")
				}
			}
		}
	}
}

// spellings holds the numbers of a text whose spelling differs from the canonical form.
type spellings struct {
	all    []spelling
	sorted bool
}

// spelling splits its path in two parts: the numbers of one object share the path of that object.
type spelling struct {
	parent []string
	key    string
	text   string
	isBad  bool // JSON can't express the number
}

// compare orders spellings by their paths.
func (s spelling) compare(path []string) int {
	last := len(path) - 1
	return cmp.Or(slices.Compare(s.parent, path[:last]), strings.Compare(s.key, path[last]))
}

// find finds the spelling of a path. It compares names and never joins them: a name may be as long as the document.
func (s *spellings) find(path []string) (text string, ok bool) {
	if s == nil || len(s.all) == 0 || len(path) == 0 {
		return "", false
	}
	if !s.sorted {
		slices.SortFunc(s.all, func(a, b spelling) int {
			return cmp.Or(slices.Compare(a.parent, b.parent), strings.Compare(a.key, b.key))
		})
		s.sorted = true
	}
	i, ok := slices.BinarySearchFunc(s.all, path, spelling.compare)
	if ok {
		text = s.all[i].text
	}
	return text, ok
}

func (s *spellings) invalidKeys() (faults Faults) {
	if s != nil {
		for _, one := range s.all {
			if one.isBad {
				faults.Add(Below(one.parent, one.key), Invalid(one.text), "must be a JSON number")
			}
		}
	}
	return faults
}

func (s *spellings) count() int {
	if s == nil {
		return 0
	}
	return len(s.all)
}

// truncate drops all spellings after the first n.
func (s *spellings) truncate(n int) {
	if s != nil {
		s.all = s.all[:n]
	}
}

// number reads a number and records its spelling if the value does not keep it.
func (s *spellings) number(text string, path []string) any {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		if strconv.FormatInt(i, 10) != text {
			s.note(path, text, false)
		}
		return i
	}
	v, faults := Parse([]byte(text))
	if faults != nil {
		v = 0.0
	}
	if faults != nil || string(AppendCanonical(nil, v)) != text {
		s.note(path, text, faults != nil)
	}
	return v
}

// note records a spelling, except that of a document that is only a number.
func (s *spellings) note(path []string, text string, isBad bool) {
	last := len(path) - 1
	if last < 0 {
		return
	}
	parent := path[:last]
	if n := len(s.all); n > 0 && slices.Equal(s.all[n-1].parent, parent) {
		parent = s.all[n-1].parent
	} else {
		parent = slices.Clone(parent)
	}
	s.all = append(s.all, spelling{parent, path[last], text, isBad})
}
