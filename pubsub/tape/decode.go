package tape

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// decoder reads values from trees of JSON.
type decoder struct {
	c      *Codec
	shared func(digest string) (any, bool) // the tree of a value that stands under its digest
	zones  map[int]*time.Location          // one for each offset: times are compared by ==, too
	// unknown are the fields of an older or newer release that this one does not know, as Type.Field.
	unknown map[string]bool
	left    int                      // values that may be read
	things  map[string]reflect.Value // pointers by the number of what they point to
	defined map[string]any           // trees of things by their numbers; nil: not needed yet
	root    any                      // tree of the state
}

// errLarge is the fault of a line that somebody made to use up memory.
var errLarge = errors.New("it has more values than a daemon records")

// errLost is the fault of a value that stood in a part of the recording that is lost.
var errLost = errors.New("a value is in a part of the recording that is lost")

// value reads a value of a type.
func (d *decoder) value(t reflect.Type, tree any) (reflect.Value, error) {
	if err := d.take(t, 1); err != nil {
		return reflect.Zero(t), err
	}
	v := reflect.New(t)
	return v.Elem(), d.at(d.c.plan(t), v.UnsafePointer(), tree)
}

// take counts the room that values of a type take beyond that of a small one each: a few octets of text may be a large
// struct.
func (d *decoder) take(t reflect.Type, n int) error {
	if d.left -= n * int(t.Size()>>6); d.left < 0 {
		return errLarge
	}
	return nil
}

// pointer reads a pointer. Two to one thing are two to one again, in whatever order they are read.
func (d *decoder) pointer(p *plan, v reflect.Value, tree any) error {
	o, _ := tree.(map[string]any)
	n, numbered := o["&"].(json.Number)
	if err := d.take(p.elem.t, 1); err != nil {
		return err
	}
	if !numbered {
		x := reflect.New(p.t.Elem())
		v.Set(x)
		return d.at(p.elem, x.UnsafePointer(), tree)
	}
	if x, known := d.things[string(n)]; known && x.Type() == p.t {
		v.Set(x)
		return nil
	}
	below, here := o["is"]
	if !here {
		if d.defined == nil {
			d.defined = map[string]any{}
			d.define(d.root)
		}
		if below, here = d.defined[string(n)]; !here {
			return fmt.Errorf("there is no %v with the number %s", p.t, n)
		}
	}
	x := reflect.New(p.t.Elem())
	if x.Type() != p.t {
		return wrong(p, tree)
	}
	if d.things == nil {
		d.things = map[string]reflect.Value{}
	}
	d.things[string(n)] = x
	v.Set(x)
	return d.at(p.elem, x.UnsafePointer(), below)
}

// define notes what has a number in a tree.
func (d *decoder) define(tree any) {
	switch t := tree.(type) {
	case map[string]any:
		if n, numbered := t["&"].(json.Number); numbered && len(t) == 2 {
			d.defined[string(n)] = t["is"]
		}
		for _, below := range t {
			d.define(below)
		}
	case []any:
		for _, below := range t {
			d.define(below)
		}
	}
}

// state reads a value in which things have numbers.
func (d *decoder) state(t reflect.Type, tree any) (reflect.Value, error) {
	d.things, d.defined, d.root = nil, nil, tree
	return d.value(t, tree)
}

func (d *decoder) at(p *plan, ptr unsafe.Pointer, tree any) error {
	if d.left--; d.left < 0 {
		return errLarge
	}
	if o, is := tree.(map[string]any); is && p.shared && len(o) == 1 {
		if digest, is := o["="].(string); is {
			var known bool
			if tree, known = d.shared(digest); !known && d.left < 0 {
				return errLarge
			} else if !known {
				return errLost
			}
		}
	}
	if tree == nil {
		return nil
	}
	return d.plain(p, ptr, tree)
}

// wrong is the fault of a tree that is no value of a type.
func wrong(p *plan, tree any) error { return fmt.Errorf("%T is no value of type %v", tree, p.t) }

func (d *decoder) plain(p *plan, ptr unsafe.Pointer, tree any) error {
	v := at(p.t, ptr)
	switch p.form {
	case formBool, formInt, formUint, formFloat:
		return d.number(p, v, tree)
	case formString:
		s, err := textOf(p, tree)
		v.SetString(s)
		return err
	case formTime:
		s, err := textOf(p, tree)
		if err != nil {
			return err
		}
		*(*time.Time)(ptr), err = d.time(s)
		return err
	case formText:
		s, err := textOf(p, tree)
		if err != nil {
			return err
		}
		return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s))
	case formBytes:
		s, is := tree.(string)
		if !is {
			return wrong(p, tree)
		}
		b, err := base64.StdEncoding.DecodeString(s)
		v.SetBytes(b)
		return err
	case formStruct:
		return d.fields(p, ptr, tree)
	case formMap, formDict:
		return d.entries(p, v, tree)
	case formList:
		return d.list(p, v, tree)
	case formPointer:
		return d.pointer(p, v, tree)
	case formInterface:
		return d.held(p, v, tree)
	case formError:
		s, err := textOf(p, tree)
		v.Set(reflect.ValueOf(errors.New(s)))
		return err
	}
	return nil
}

func (d *decoder) number(p *plan, v reflect.Value, tree any) (err error) {
	switch n := tree.(type) {
	case bool:
		if p.form != formBool {
			return wrong(p, tree)
		}
		v.SetBool(n)
		return nil
	case json.Number:
		switch p.form {
		case formInt:
			var x int64
			x, err = strconv.ParseInt(string(n), 10, p.t.Bits())
			v.SetInt(x)
		case formUint:
			var x uint64
			x, err = strconv.ParseUint(string(n), 10, p.t.Bits())
			v.SetUint(x)
		case formFloat:
			var x float64
			x, err = strconv.ParseFloat(string(n), p.t.Bits())
			v.SetFloat(x)
		default:
			err = wrong(p, tree)
		}
		return err
	case string: // Inf and NaN
		if p.form == formFloat {
			x, err := strconv.ParseFloat(n, 64)
			v.SetFloat(x)
			return err
		}
	}
	return wrong(p, tree)
}

// textOf returns a text; one that was no UTF-8 is in a list.
func textOf(p *plan, tree any) (string, error) {
	switch s := tree.(type) {
	case string:
		return s, nil
	case []any:
		if len(s) == 1 {
			if text, is := s[0].(string); is {
				b, err := base64.StdEncoding.DecodeString(text)
				return string(b), err
			}
		}
	}
	return "", wrong(p, tree)
}

func (d *decoder) time(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	wall, mono, has := strings.Cut(s, "@")
	t, err := time.Parse(time.RFC3339Nano, wall)
	if err != nil {
		return t, err
	}
	if _, offset := t.Zone(); offset == 0 {
		t = t.UTC()
	} else {
		if d.zones[offset] == nil {
			if d.zones == nil {
				d.zones = map[int]*time.Location{}
			}
			d.zones[offset] = time.FixedZone("", offset)
		}
		t = t.In(d.zones[offset])
	}
	if has {
		ns, err := strconv.ParseInt(mono, 10, 64)
		return withMonotonic(t, ns), err
	}
	return t, nil
}

func (d *decoder) fields(p *plan, ptr unsafe.Pointer, tree any) error {
	o, is := tree.(map[string]any)
	if !is {
		return wrong(p, tree)
	}
	for name, below := range o {
		i, known := p.byName[name]
		if !known {
			if d.unknown != nil && len(d.unknown) < maxUnknown {
				d.unknown[p.t.String()+"."+name] = true
			}
			continue
		}
		f := &p.fields[i]
		if err := d.at(f.plan, unsafe.Add(ptr, f.offset), below); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (d *decoder) entries(p *plan, v reflect.Value, tree any) error {
	if o, is := tree.(map[string]any); is && p.form == formDict {
		if err := d.take(p.elem.t, len(o)); err != nil {
			return err
		}
		v.Set(reflect.MakeMapWithSize(p.t, len(o)))
		for name, below := range o {
			x, err := d.value(p.elem.t, below)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			v.SetMapIndex(reflect.ValueOf(name).Convert(p.key.t), x)
		}
		return nil
	}
	pairs, is := tree.([]any)
	if !is {
		return wrong(p, tree)
	}
	if err := d.take(p.elem.t, len(pairs)); err != nil {
		return err
	}
	v.Set(reflect.MakeMapWithSize(p.t, len(pairs)))
	for _, pair := range pairs {
		kv, is := pair.([]any)
		if !is || len(kv) != 2 {
			return wrong(p, pair)
		}
		key, err := d.value(p.key.t, kv[0])
		if err != nil {
			return err
		}
		x, err := d.value(p.elem.t, kv[1])
		if err != nil {
			return err
		}
		v.SetMapIndex(key, x)
	}
	return nil
}

func (d *decoder) list(p *plan, v reflect.Value, tree any) error {
	l, is := tree.([]any)
	if !is || v.Kind() == reflect.Array && len(l) != v.Len() {
		return wrong(p, tree)
	}
	if v.Kind() == reflect.Slice {
		if err := d.take(p.elem.t, len(l)); err != nil {
			return err
		}
		v.Set(reflect.MakeSlice(p.t, len(l), len(l)))
	}
	for i, below := range l {
		if err := d.at(p.elem, v.Index(i).Addr().UnsafePointer(), below); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
	}
	return nil
}

func (d *decoder) held(p *plan, v reflect.Value, tree any) error {
	o, is := tree.(map[string]any)
	if !is || len(o) != 1 {
		return wrong(p, tree)
	}
	for name, below := range o {
		t, known := d.c.named[name]
		if !known || !t.AssignableTo(p.t) {
			return fmt.Errorf("%s is no type of this release that %v may hold", name, p.t)
		}
		x, err := d.value(t, below)
		if err != nil {
			return fmt.Errorf("%s: %w", short(name), err)
		}
		v.Set(x)
	}
	return nil
}
