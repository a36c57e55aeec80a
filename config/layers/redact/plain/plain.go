// Package plain owns the form in which a person sees any Go value, such as the state of an actor: numbers, texts, lists
// and maps, bounded and without secrets. It reads unexported fields.
//
// It never changes what it reads, calls no method of it but those of well-known types, and locks nothing: the caller
// must own the value.
package plain

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/google/uuid"

	"edgespan/config/layers/redact"
)

const (
	maxDepth  = 12
	maxString = 200 // characters of one text
	maxItems  = 8   // of a list, at least
)

// shown are the places whose pointers are followed: cores, and the words of host state. The rest of what an actor holds
// is how it talks to others.
var shown = []string{"edgespan/netinst", "edgespan/appnet", "edgespan/config"}

// hidden are fields that are left out though their type is shown.
var hidden = map[string]bool{"log": true, "timers": true, "subs": true}

// common are types whose values several actors hold. Others are known by their locks.
var common = map[string]bool{"deps": true, "Node": true}

// Data returns a value as plain data. It reads at most size values, follows no pointer twice, and leaves out what is no
// data: functions, channels, locks, and whatever other libraries keep.
func Data(v any, size int, mask func(string) string) any { return data(v, size, mask, true) }

// Shared is Data of a value that is not the caller's alone, such as a message: pointers are followed only to what never
// changes, the types of the cores.
func Shared(v any, size int, mask func(string) string) any { return data(v, size, mask, false) }

func data(v any, size int, mask func(string) string, own bool) any {
	d := dumper{left: size, mask: mask, seen: map[unsafe.Pointer]bool{}}
	r := reflect.ValueOf(v)
	if !r.IsValid() {
		return map[string]any{}
	}
	if r.Kind() == reflect.Pointer && !r.IsNil() { // the actor itself, wherever its type is from
		d.seen[r.UnsafePointer()] = true
		r = r.Elem()
	}
	if own {
		d.room = r.Type().PkgPath()
	}
	out, ok := d.value(r, 0)
	if !ok {
		return map[string]any{}
	}
	return out
}

type dumper struct {
	left int
	room string // of the type of the value that is the caller's own
	mask func(string) string
	seen map[unsafe.Pointer]bool // pointers on the way to this value
}

// value returns a value as data, false if it is none.
func (d *dumper) value(v reflect.Value, depth int) (any, bool) {
	if !v.IsValid() {
		return nil, true
	}
	switch v.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return nil, false
	}
	if d.left--; d.left < 0 || depth > maxDepth {
		return "…", true
	}
	if text, ok := known(v); ok {
		return text, true
	}
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool(), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return v.Uint(), true
	case reflect.Float32, reflect.Float64:
		return fmt.Sprint(v.Float()), true // JSON has no NaN
	case reflect.String:
		return d.text(v.String()), true
	case reflect.Pointer:
		return d.pointer(v, depth)
	case reflect.Interface:
		return d.interfaced(v, depth)
	case reflect.Struct:
		return d.fields(v, depth)
	case reflect.Map:
		return d.entries(v, depth)
	case reflect.Slice, reflect.Array:
		return d.list(v, depth)
	}
	return nil, false
}

// text masks before it cuts: the beginning of a secret is one.
func (d *dumper) text(s string) string {
	if len(s) > 16*maxString {
		return fmt.Sprintf("(%d octets)", len(s))
	}
	s = d.mask(strings.ToValidUTF8(s, "�"))
	if utf8.RuneCountInString(s) > maxString {
		s = string([]rune(s)[:maxString]) + "…"
	}
	return s
}

// known returns the text of types that have a usual one.
func known(v reflect.Value) (string, bool) {
	switch v.Type() {
	case reflect.TypeFor[uuid.UUID](), reflect.TypeFor[time.Duration]():
		return fmt.Sprint(v.Interface()), true
	case reflect.TypeFor[netip.Addr](), reflect.TypeFor[netip.Prefix](), reflect.TypeFor[netip.AddrPort]():
		if v.IsZero() {
			return "", true
		}
		return fmt.Sprint(v.Interface()), true
	case reflect.TypeFor[time.Time]():
		if t := v.Interface().(time.Time); !t.IsZero() {
			return t.UTC().Format(time.RFC3339Nano), true
		}
		return "", true
	case reflect.TypeFor[[]byte](), reflect.TypeFor[json.RawMessage]():
		return fmt.Sprintf("(%d octets)", v.Len()), true
	}
	return "", false
}

func (d *dumper) pointer(v reflect.Value, depth int) (any, bool) {
	t := v.Type().Elem()
	at := v.UnsafePointer()
	switch {
	case t.Kind() == reflect.Struct && !d.isOwn(t), t.Kind() == reflect.Func:
		return nil, false
	case v.IsNil():
		return nil, true
	case d.seen[at]:
		return "(as above)", true
	}
	d.seen[at] = true
	defer delete(d.seen, at)
	return d.value(v.Elem(), depth+1)
}

// interfaced returns what is in an interface, with its type if that is a struct.
func (d *dumper) interfaced(v reflect.Value, depth int) (any, bool) {
	if v.IsNil() {
		return nil, true
	}
	in := v.Elem()
	out, ok := d.value(in, depth+1)
	if m, is := out.(map[string]any); is && ok && in.Kind() != reflect.Map {
		m["(type)"] = in.Type().String()
	}
	return out, ok
}

// isOwn reports whether a pointer to this type belongs to one actor alone: others may write what it points to.
func (d *dumper) isOwn(t reflect.Type) bool {
	if !isShown(t) && (d.room == "" || t.PkgPath() != d.room || common[t.Name()]) {
		return false
	}
	for i := range t.NumField() {
		if room := t.Field(i).Type.PkgPath(); room == "sync" || room == "sync/atomic" {
			return false
		}
	}
	return true
}

func isShown(t reflect.Type) bool {
	return slices.ContainsFunc(shown, func(room string) bool {
		return t.PkgPath() == room || strings.HasPrefix(t.PkgPath(), room+"/")
	})
}

func (d *dumper) fields(v reflect.Value, depth int) (any, bool) {
	t := v.Type()
	if depth > 0 && !isShown(t) && !strings.HasPrefix(t.PkgPath(), "edgespan/actors/") && t.Name() != "" {
		return nil, false
	}
	v = addressable(v)
	out := map[string]any{}
	for i := range t.NumField() {
		f := t.Field(i)
		if hidden[f.Name] {
			continue
		}
		// Reading is all that happens to an unexported field.
		field := reflect.NewAt(f.Type, unsafe.Pointer(v.Field(i).UnsafeAddr())).Elem()
		switch x, ok := d.value(field, depth+1); {
		case !ok:
		case isSecret(f.Name, field):
			out[f.Name] = redact.Mark
		case f.Anonymous && isMap(x):
			for name, below := range x.(map[string]any) {
				out[name] = below
			}
		default:
			out[f.Name] = x
		}
	}
	return out, len(out) > 0 || t.NumField() == 0
}

// isSecret reports whether a value may be a secret by its name. A number, such as that of a timer's token, is none.
func isSecret(name string, v reflect.Value) bool {
	return !v.CanInt() && !v.CanUint() && v.Kind() != reflect.Bool && !v.IsZero() && redact.IsSecretName(name)
}

func isMap(x any) bool {
	_, is := x.(map[string]any)
	return is
}

// addressable returns the value itself or a copy of it, whose fields can be read.
func addressable(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v
	}
	to := reflect.New(v.Type()).Elem()
	to.Set(v)
	return to
}

func (d *dumper) entries(v reflect.Value, depth int) (any, bool) {
	out := map[string]any{}
	texts := map[string]reflect.Value{}
	limit := max(maxItems, d.left/4)
	for it := v.MapRange(); len(texts) < limit && it.Next(); {
		name, ok := d.key(it.Key())
		if !ok {
			return nil, false
		}
		texts[name] = it.Key()
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if d.left <= 0 {
			break
		}
		x, ok := d.value(v.MapIndex(texts[name]), depth+1)
		if !ok {
			return nil, false
		}
		if isSecret(name, v.MapIndex(texts[name])) {
			x = redact.Mark
		}
		out[d.text(name)] = x
	}
	if n := v.Len() - len(out); n > 0 {
		out["…"] = fmt.Sprintf("%d more", n)
	}
	return out, true
}

// key returns a key of a map as a text, false if the key is no data.
func (d *dumper) key(k reflect.Value) (string, bool) {
	if text, ok := known(k); ok {
		return text, true
	}
	switch k.Kind() {
	case reflect.Pointer, reflect.Chan, reflect.UnsafePointer:
		return "", false
	case reflect.Struct, reflect.Array, reflect.Interface:
		if s, ok := k.Interface().(fmt.Stringer); ok && isShown(k.Type()) {
			return s.String(), true // a key has no secret
		}
		x, ok := d.value(k, maxDepth-3)
		return Line(x, maxString), ok
	case reflect.String:
		return k.String(), true
	}
	x, ok := d.value(k, 0)
	return fmt.Sprint(x), ok
}

func (d *dumper) list(v reflect.Value, depth int) (any, bool) {
	out := make([]any, 0, min(v.Len(), 64))
	limit := max(maxItems, d.left/4) // a long one leaves something to what follows
	for i := range v.Len() {
		if d.left <= 0 || i >= limit {
			return append(out, fmt.Sprintf("… %d more", v.Len()-i)), true
		}
		x, ok := d.value(v.Index(i), depth+1)
		if !ok {
			return nil, false
		}
		out = append(out, x)
	}
	return out, true
}

// Line returns data as one line of JSON of at most so many characters, without what is empty.
func Line(v any, limit int) string {
	v, _ = compact(v)
	text, err := json.Marshal(v)
	if err != nil {
		return "(no data)"
	}
	if s := string(text); utf8.RuneCountInString(s) > limit {
		return string([]rune(s)[:limit]) + "…"
	}
	return string(text)
}

// compact returns data without what is empty or zero, and whether anything is left.
func compact(v any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, x := range v {
			if x, some := compact(x); some {
				out[name] = x
			}
		}
		return out, len(out) > 0
	case []any:
		return v, len(v) > 0
	case nil:
		return nil, false
	}
	return v, !reflect.ValueOf(v).IsZero()
}
