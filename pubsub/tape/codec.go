package tape

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// maxDepth bounds how deep values are nested: a value that contains itself has no end.
const maxDepth = 64

// Codec turns values into JSON and back, unexported fields included. What a field does not say is the zero value of its
// type. Functions and channels have no text.
type Codec struct {
	// IsSecret reports whether a text is a secret by the name of the field that holds it, Type.Field, or of the key in a
	// map. It may be nil.
	IsSecret func(name string) bool
	// Mask returns a text for people without the usual forms of secrets that are not known. It may be nil.
	Mask func(text string) string

	named     map[string]reflect.Type // what may be in an interface
	transient map[reflect.Type]bool
	shared    map[reflect.Type]bool
	plans     sync.Map // reflect.Type: *plan
}

// NewCodec returns a codec for values of any type. Interfaces in them may hold values of the named types alone.
func NewCodec(named ...any) *Codec {
	c := &Codec{named: map[string]reflect.Type{}, transient: map[reflect.Type]bool{}, shared: map[reflect.Type]bool{}}
	for _, v := range append(named, false, 0, int64(0), uint64(0), 0.0, "", []any(nil), map[string]any(nil)) {
		t := reflect.TypeOf(v)
		if old, twice := c.named[t.String()]; twice && old != t {
			panic(fmt.Sprintf("tape: two types have the name %v", t))
		}
		c.named[t.String()] = t
	}
	return c
}

// Transient names, by values, types that only hold what can be computed again. They are not written.
func (c *Codec) Transient(vs ...any) {
	for _, v := range vs {
		c.transient[reflect.TypeOf(v)] = true
	}
}

// Shared names, by values, types whose values are long and come again and again.
func (c *Codec) Shared(vs ...any) {
	for _, v := range vs {
		c.shared[reflect.TypeOf(v)] = true
	}
}

// form is how values of a type are written.
type form uint8

const (
	formNone form = iota // functions, channels: they have no text
	formBool
	formInt
	formUint
	formFloat
	formString
	formTime
	formText  // by its MarshalText
	formBytes // []byte in base64
	formStruct
	formMap  // pairs of key and value, in the order of the keys' texts
	formDict // a map with keys that are strings
	formList
	formPointer
	formInterface
	formError // an error by its text alone
)

// plan is how one type is written and read.
type plan struct {
	t      reflect.Type
	form   form
	shared bool
	fields []field
	byName map[string]int
	elem   *plan
	key    *plan
}

// field is one field of a struct.
type field struct {
	name   string
	offset uintptr
	secret bool
	free   bool // it is for people, and may quote anything
	plan   *plan
}

// freeTexts are the names of fields with texts for people, or for programs: they may quote a secret, however short.
var freeTexts = []string{"Cause", "Command", "Content", "Err", "Error", "Op", "Output", "Reason", "Text", "Why"}

var (
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	errorType       = reflect.TypeFor[error]()
	timeType        = reflect.TypeFor[time.Time]()
)

// plan returns how a type is written.
func (c *Codec) plan(t reflect.Type) *plan {
	if p, ok := c.plans.Load(t); ok {
		return p.(*plan)
	}
	return c.make(t, map[reflect.Type]*plan{})
}

// make makes a plan. Those that are being made are known to each other, since a type may contain itself; only complete
// ones are for others to see.
func (c *Codec) make(t reflect.Type, making map[reflect.Type]*plan) *plan {
	if p, ok := c.plans.Load(t); ok {
		return p.(*plan)
	}
	if p, ok := making[t]; ok {
		return p
	}
	first := len(making) == 0
	p := &plan{t: t, shared: c.shared[t]}
	making[t] = p
	c.fill(p, making)
	if first {
		for t, p := range making {
			c.plans.LoadOrStore(t, p)
		}
	}
	return p
}

func (c *Codec) fill(p *plan, making map[reflect.Type]*plan) {
	t := p.t
	switch {
	case t == timeType:
		p.form = formTime
		return
	case t == errorType:
		p.form = formError
		return
	case t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface &&
		reflect.PointerTo(t).Implements(textUnmarshaler) && t.Implements(textMarshaler):
		p.form = formText
		return
	}
	switch t.Kind() {
	case reflect.Bool:
		p.form = formBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.form = formInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		p.form = formUint
	case reflect.Float32, reflect.Float64:
		p.form = formFloat
	case reflect.String:
		p.form = formString
	case reflect.Struct:
		p.form = formStruct
		c.fillFields(p, making)
	case reflect.Map:
		p.form, p.key, p.elem = formMap, c.make(t.Key(), making), c.make(t.Elem(), making)
		if t.Key().Kind() == reflect.String && p.key.form == formString {
			p.form = formDict
		}
	case reflect.Slice, reflect.Array:
		p.form, p.elem = formList, c.make(t.Elem(), making)
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			p.form = formBytes
		}
	case reflect.Pointer:
		p.form, p.elem = formPointer, c.make(t.Elem(), making)
	case reflect.Interface:
		p.form = formInterface
	}
}

func (c *Codec) fillFields(p *plan, making map[reflect.Type]*plan) {
	p.byName = map[string]int{}
	for i := range p.t.NumField() {
		f := p.t.Field(i)
		if f.Name == "_" || c.transient[f.Type] || f.Type.PkgPath() == "sync" {
			continue
		}
		p.byName[f.Name] = len(p.fields)
		p.fields = append(p.fields, field{f.Name, f.Offset, c.isSecret(p.t.Name() + "." + f.Name),
			slices.Contains(freeTexts, f.Name), c.make(f.Type, making)})
	}
}

func (c *Codec) isSecret(name string) bool { return c.IsSecret != nil && c.IsSecret(name) }

// at returns a value of a type at an address, which may be read and set whatever holds it.
func at(t reflect.Type, p unsafe.Pointer) reflect.Value { return reflect.NewAt(t, p).Elem() }

// addressable returns a copy of a value that has an address.
func addressable(v reflect.Value) reflect.Value {
	x := reflect.New(v.Type()).Elem()
	x.Set(v)
	return x
}

// A time.Time is recorded with its reading of the monotonic clock, by which durations are measured, and which jumps of
// the wall clock leave alone. Package time can't make such a value: this is its layout since Go 1.9.
type rawTime struct {
	wall uint64
	ext  int64
	loc  *time.Location
}

const (
	hasMonotonic = 1 << 63
	nsecShift    = 30
	// Seconds from the year 1 to 1885, where those in wall begin, and to 1970.
	wallToInternal = (1884*365 + 1884/4 - 1884/100 + 1884/400) * 86400
	unixToInternal = (1969*365 + 1969/4 - 1969/100 + 1969/400) * 86400
)

// monotonic returns the reading of the monotonic clock in a time.
func monotonic(t time.Time) (ns int64, has bool) {
	raw := (*rawTime)(unsafe.Pointer(&t))
	return raw.ext, raw.wall&hasMonotonic != 0
}

// withMonotonic returns a time with a reading of the monotonic clock. It must be in the years 1885 to 2157.
func withMonotonic(t time.Time, ns int64) time.Time {
	sec := t.Unix() + unixToInternal - wallToInternal
	if sec < 0 || sec >= 1<<33 {
		return t
	}
	raw := (*rawTime)(unsafe.Pointer(&t))
	raw.wall = hasMonotonic | uint64(sec)<<nsecShift | uint64(t.Nanosecond())
	raw.ext = ns
	return t
}

// typeName returns the name of what is in an interface.
func (c *Codec) typeName(t reflect.Type) (string, error) {
	name := t.String()
	if c.named[name] != t {
		return "", fmt.Errorf("a value of type %v: no type that recordings know", t)
	}
	return name, nil
}

// short returns the name of a type without its package.
func short(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
