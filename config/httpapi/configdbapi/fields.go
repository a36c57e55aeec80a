package configdbapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"edgespan/config"
	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
)

// fields reads the members of a body and collects all faults in err. Unread members are ignored, because clients of the
// original send such.
type fields struct {
	configdb.Object
	where  string // prefix of the names of members
	faults *[]string
	err    error
}

func (a *api) readFields(c *call) (*fields, error) {
	o, err := a.readObject(c, MaxBody)
	return &fields{Object: o, faults: &[]string{}}, err
}

// maxFaults bounds the faults in one error.
const maxFaults = 20

// wrong adds a fault of a member.
func (f *fields) wrong(name, what string) {
	if len(*f.faults) == maxFaults {
		return // enough for one answer
	}
	*f.faults = append(*f.faults, strings.ToValidUTF8(config.Shorten(f.where+name), "")+": "+what)
	f.err = refuse(http.StatusBadRequest, "%s", strings.Join(*f.faults, "; "))
}

func (f *fields) has(name string) bool { _, ok := f.Get(name); return ok }

// only rejects members with other names.
func (f *fields) only(names ...string) {
	for _, m := range f.Members() {
		if !slices.Contains(names, m.Key) {
			f.wrong(config.FormatPath([]string{m.Key}), config.UnknownField+": "+config.OneOf(names))
		}
	}
}

// text returns a string, which is required.
func (f *fields) text(name string) string {
	v, ok := f.Get(name)
	if !ok {
		f.wrong(name, "required: must be a string")
		return ""
	}
	s, ok := v.Text()
	if !ok {
		f.wrong(name, wrongType(v)+": must be a string")
	}
	return s
}

func (f *fields) textOr(name, absent string) string {
	if v, ok := f.Get(name); !ok || v.String() == "null" {
		return absent
	}
	return f.text(name)
}

func (f *fields) textIfThere(name string) *string {
	if !f.has(name) {
		return nil
	}
	s := f.text(name)
	return &s
}

// id returns a whole number; nil if it is missing or null.
func (f *fields) id(name string) *int64 {
	v, ok := f.Get(name)
	if !ok || v.String() == "null" {
		return nil
	}
	n, err := strconv.ParseInt(v.String(), 10, 64)
	if err != nil {
		f.wrong(name, config.InvalidValue(short(v))+": must be a whole number")
	}
	return &n
}

// count returns a whole number from 1; 0 if it is missing.
func (f *fields) count(name string) uint64 {
	v, ok := f.Get(name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(v.String(), 10, 63)
	if err != nil || n == 0 {
		f.wrong(name, config.InvalidValue(short(v))+": must be a whole number from 1")
	}
	return n
}

// flagIfThere returns a flag; nil if it is missing.
func (f *fields) flagIfThere(name string) *bool {
	if !f.has(name) {
		return nil
	}
	ok := f.flag(name)
	return &ok
}

func (f *fields) flag(name string) bool {
	v, ok := f.Get(name)
	if ok && v.String() != "true" && v.String() != "false" {
		f.wrong(name, wrongType(v)+": must be true or false")
	}
	return v.String() == "true"
}

// value returns any value; nil if it is missing.
func (f *fields) value(name string) configdb.JSON {
	v, _ := f.Get(name)
	return v
}

// maxElements bounds a list in a body, outside documents.
const maxElements = 10_000

// elements returns the elements of a list, which is required.
func (f *fields) elements(name, of string) []configdb.JSON {
	v, ok := f.Get(name)
	switch {
	case !ok:
		f.wrong(name, config.Required+": must be a list of "+of)
	case v[0] != '[':
		f.wrong(name, wrongType(v)+": must be a list of "+of)
	}
	all := v.Elements()
	if len(all) > maxElements {
		f.wrong(name, fmt.Sprintf("too many elements (%d): must be at most %d", len(all), maxElements))
		return nil
	}
	return all
}

func (f *fields) texts(name string) []string {
	out := []string{}
	for i, v := range f.elements(name, "strings") {
		s, ok := v.Text()
		if !ok {
			f.wrong(fmt.Sprintf("%s[%d]", name, i), wrongType(v)+": must be a string")
		}
		out = append(out, s)
	}
	return out
}

// levels returns names of levels. null is a level that does not exist, as in the original.
func (f *fields) levels(name string) []string {
	v, _ := f.Get(name)
	for _, one := range v.Elements() {
		if one.String() == "null" {
			f.err = refuse(http.StatusNotFound, "%s: null is the name of no level", name)
			return nil
		}
	}
	return f.texts(name)
}

// textsByName returns the strings of an object; nil if it is missing or null.
func (f *fields) textsByName(name string) map[string]string {
	if v, ok := f.Get(name); !ok || v.String() == "null" {
		return nil
	}
	below, out := f.object(name), map[string]string{}
	for _, m := range below.Members() {
		s, ok := m.Value.Text()
		if !ok {
			below.wrong(config.FormatPath([]string{m.Key}), wrongType(m.Value)+": must be a string")
		}
		out[m.Key] = s
	}
	f.adoptFaults(below)
	return out
}

// refs returns ids, which are numbers, and names, which are strings, even of digits.
func (f *fields) refs(name string) []model.Ref {
	out := []model.Ref{}
	for i, v := range f.elements(name, "ids and names") {
		if s, ok := v.Text(); ok && s != "" {
			out = append(out, model.Ref{Name: s})
			continue
		}
		if v.String() == "null" { // no object has this id: not found
			out = append(out, model.Ref{})
			continue
		}
		id, err := strconv.ParseInt(v.String(), 10, 64)
		if err != nil {
			f.wrong(fmt.Sprintf("%s[%d]", name, i), wrongType(v)+": must be an id or a name")
		}
		out = append(out, model.Ref{ID: id})
	}
	return out
}

// below returns the objects of a list.
func (f *fields) below(name string) []*fields {
	var out []*fields
	for i, v := range f.elements(name, "objects") {
		o, err := configdb.ObjectOf(v)
		if err != nil {
			f.wrong(fmt.Sprintf("%s[%d]", name, i), wrongType(v)+": must be an object")
			continue
		}
		out = append(out, f.at(fmt.Sprintf("%s[%d].", name, i), o))
	}
	return out
}

// at returns the members of an object below f; its faults are added to those of f.
func (f *fields) at(where string, o configdb.Object) *fields {
	return &fields{Object: o, where: f.where + where, faults: f.faults}
}

// object returns an object, which is required.
func (f *fields) object(name string) *fields {
	where := config.FormatPath([]string{name})
	v, ok := f.Get(name)
	if !ok {
		f.wrong(where, "required: must be an object")
		return f.at(where+".", configdb.Object{})
	}
	o, err := configdb.ObjectOf(v)
	if err != nil {
		f.wrong(where, wrongType(v)+": must be an object")
	}
	return f.at(where+".", o)
}

// adoptFaults copies the error of below.
func (f *fields) adoptFaults(below *fields) {
	if below.err != nil {
		f.err = below.err
	}
}

// newDefinitions returns the definitions of a new component; none if missing.
func (f *fields) newDefinitions(name string) []model.Definition {
	if !f.has(name) {
		return nil
	}
	var out []model.Definition
	for _, one := range f.below(name) {
		out = append(out, model.Definition{Name: one.text("name"), Content: one.value("content")})
		f.adoptFaults(one)
	}
	return out
}

// members returns the ids of the definitions that a component will have; nil to keep the current ones.
func (f *fields) members(name string) *[]int64 {
	if !f.has(name) {
		return nil
	}
	out := []int64{}
	for _, one := range f.below(name) {
		id := one.id("id")
		switch {
		case id != nil:
			out = append(out, *id)
		case one.has("id"): // null: no definition has this id: not found
			out = append(out, 0)
		default:
			one.wrong("id", "required: must be the id of a definition")
		}
		f.adoptFaults(one)
	}
	return &out
}

// wrongType is the problem of a value of another type than expected.
func wrongType(v configdb.JSON) string {
	kind := "number"
	switch v[0] {
	case '{':
		kind = "object"
	case '[':
		kind = "list"
	case '"':
		kind = "string"
	case 't', 'f':
		kind = "boolean"
	case 'n':
		kind = "null"
	}
	return config.InvalidType(kind)
}

func short(v configdb.JSON) string { return strings.ToValidUTF8(config.Shorten(v.String()), "") }

func decimal(id int64) string { return strconv.FormatInt(id, 10) }
