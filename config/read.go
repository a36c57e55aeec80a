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

// Limits of a document of YAML or JSON. They bound the work that a hostile one can cause.
const (
	maxDocument      = 4 << 20 // bytes
	maxDocumentDepth = 32
)

// Document is a mapping as a person or a file has it, in YAML or JSON.
type Document struct {
	Object  Object
	spelled *spellings // nil: its numbers are as in canonical form
}

// Number is the number at a path, as it stands in the text if its canonical form is another one: 010 is 10 for those
// who merge documents, and a schema may refuse it.
func (d Document) Number(path []string, v any) string {
	if text, is := d.spelled.at(path); is {
		return text
	}
	if i, is := v.(int64); is {
		return strconv.FormatInt(i, 10)
	}
	return string(AppendCanonical(nil, v))
}

// Unfit are what a configuration can't have, whatever it means: lists, and numbers that JSON has not.
func (d Document) Unfit() Faults {
	faults := d.spelled.bad()
	noLists(d.Object, nil, false, &faults)
	faults.Sort()
	return faults
}

const explicitMapping = "must be an explicit mapping; {} removes everything"

// ReadDocument reads a document that is one mapping of YAML or JSON in UTF-8, with at most 4 MiB and 32 levels. Equal
// keys are faults, and the first of them counts; with any other fault there is no object.
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
		v, err = p.value()
		faults = p.faults
	} else {
		v, err = d.readYAML(string(text), &faults)
	}
	switch o, is := v.(Object); {
	case err != nil:
		return Document{}, Faults{{Problem: err.Error(),
			Expectation: "must be one YAML or JSON mapping"}}
	case v == nothing:
		return Document{}, Faults{{Problem: "the document is empty", Expectation: explicitMapping}}
	case !is:
		return Document{}, Faults{{Problem: InvalidType(InYAML(v)), Expectation: explicitMapping}}
	default:
		d.Object = o
	}
	faults.Sort()
	return d, faults
}

// nothing is read of a text without a document.
var nothing any = struct{}{}

// InYAML names the type of a value as people do who write YAML.
func InYAML(v any) string {
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

// ReadObject reads a document without looking at its meaning, for those who merge it with others. It has no lists: a
// configuration has none.
func ReadObject(text []byte) (Object, Faults) { return readObject(text, false) }

// ReadObjectWithLists is ReadObject for files beside the configuration, which may have lists of scalars.
func ReadObjectWithLists(text []byte) (Object, Faults) { return readObject(text, true) }

func readObject(text []byte, lists bool) (Object, Faults) {
	d, faults := ReadDocument(text)
	if d.Object == nil {
		return nil, faults
	}
	faults = append(faults, d.spelled.bad()...)
	noLists(d.Object, nil, lists, &faults)
	if len(faults) > 0 {
		faults.Sort()
		return nil, faults
	}
	return d.Object, nil
}

// noLists notes the lists of an object, or only those of anything but scalars.
func noLists(o Object, path []string, scalars bool, faults *Faults) {
	for key, v := range o {
		switch v := v.(type) {
		case Object:
			noLists(v, append(path, key), scalars, faults)
		case []any:
			if !scalars {
				faults.Add(Sub(path, key), InvalidType("list"), "must be a mapping by name or a comma-separated string")
				continue
			}
			for i, item := range v {
				if !simple(item) {
					faults.Add(Sub(path, key, strconv.Itoa(i)), InvalidType(InYAML(item)), "must be a scalar in a list")
				}
			}
		}
	}
}

// spellings are the numbers of a text that are spelled otherwise in canonical form.
type spellings struct {
	all    []spelling
	sorted bool
}

// spelling has its place in two parts: those of one object share what is above them.
type spelling struct {
	parent []string
	key    string
	text   string
	isBad  bool // JSON has no such number
}

// compare orders spellings by their places.
func (s spelling) compare(path []string) int {
	last := len(path) - 1
	return cmp.Or(slices.Compare(s.parent, path[:last]), strings.Compare(s.key, path[last]))
}

// at searches for the spelling of a path. Names are compared and never joined: one may be as long as the document.
func (s *spellings) at(path []string) (text string, is bool) {
	if s == nil || len(s.all) == 0 || len(path) == 0 {
		return "", false
	}
	if !s.sorted {
		slices.SortFunc(s.all, func(a, b spelling) int {
			return cmp.Or(slices.Compare(a.parent, b.parent), strings.Compare(a.key, b.key))
		})
		s.sorted = true
	}
	i, is := slices.BinarySearchFunc(s.all, path, spelling.compare)
	if is {
		text = s.all[i].text
	}
	return text, is
}

func (s *spellings) bad() (faults Faults) {
	if s != nil {
		for _, one := range s.all {
			if one.isBad {
				faults.Add(Sub(one.parent, one.key), Invalid(one.text), "must be a JSON number")
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

// cut takes back what was noted after the first n.
func (s *spellings) cut(n int) {
	if s != nil {
		s.all = s.all[:n]
	}
}

// number reads a number, and notes the spelling that its value does not keep.
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

// note keeps a spelling. That of a document which is nothing but a number is no one's.
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
