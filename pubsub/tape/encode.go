package tape

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
	"unsafe"
)

// shareFrom is the length of the shortest value that stands under its digest.
const shareFrom = 200

// blob is a value that stands once in a segment.
type blob struct {
	digest string
	text   []byte
}

// errFunction is the fault of a state that holds a function or a channel: it can't be written.
var errFunction = errors.New("it holds a function or a channel")

// encoder writes one value.
type encoder struct {
	c      *Codec
	out    []byte
	blobs  []blob // shared values, in the order in which they end
	masks  *masks // nil: no secret is replaced
	strict bool   // functions are faults
	err    error
	depth  int
}

// value writes any value, nil included.
func (e *encoder) value(v any) {
	if v == nil {
		e.out = append(e.out, "null"...)
		return
	}
	x := addressable(reflect.ValueOf(v))
	e.at(e.c.plan(x.Type()), x.Addr().UnsafePointer())
}

// fail keeps the first fault.
func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
	e.out = append(e.out, "null"...)
}

// at writes the value at an address.
func (e *encoder) at(p *plan, ptr unsafe.Pointer) {
	if e.depth++; e.depth > maxDepth {
		e.depth--
		e.fail(fmt.Errorf("a value of type %v is nested too deep", p.t))
		return
	}
	start := len(e.out)
	e.plain(p, ptr)
	e.depth--
	if p.shared && len(e.out)-start >= shareFrom {
		sum := sha256.Sum256(e.out[start:])
		digest := hex.EncodeToString(sum[:12])
		if !slices.ContainsFunc(e.blobs, func(b blob) bool { return b.digest == digest }) {
			e.blobs = append(e.blobs, blob{digest, bytes.Clone(e.out[start:])})
		}
		e.out = append(append(append(e.out[:start], `{"=":"`...), digest...), `"}`...)
	}
}

func (e *encoder) plain(p *plan, ptr unsafe.Pointer) {
	switch p.form {
	case formBool:
		e.out = strconv.AppendBool(e.out, *(*bool)(ptr))
	case formInt:
		e.out = strconv.AppendInt(e.out, at(p.t, ptr).Int(), 10)
	case formUint:
		e.out = strconv.AppendUint(e.out, at(p.t, ptr).Uint(), 10)
	case formFloat:
		e.float(at(p.t, ptr).Float())
	case formString:
		e.text(*(*string)(ptr))
	case formTime:
		e.time(*(*time.Time)(ptr))
	case formText:
		text, err := at(p.t, ptr).Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			e.fail(err)
			return
		}
		e.text(string(text))
	case formBytes:
		if b := at(p.t, ptr); b.IsNil() {
			e.out = append(e.out, "null"...)
		} else {
			e.out = append(base64.StdEncoding.AppendEncode(append(e.out, '"'), e.masked(b.Bytes())), '"')
		}
	case formStruct:
		e.fields(p, ptr)
	case formMap, formDict:
		e.entries(p, at(p.t, ptr))
	case formList:
		e.list(p, at(p.t, ptr))
	case formPointer:
		if to := *(*unsafe.Pointer)(ptr); to == nil {
			e.out = append(e.out, "null"...)
		} else {
			e.at(p.elem, to)
		}
	case formInterface:
		e.held(at(p.t, ptr))
	case formError:
		if err, _ := at(p.t, ptr).Interface().(error); err == nil {
			e.out = append(e.out, "null"...)
		} else {
			e.text(err.Error())
		}
	default:
		e.out = append(e.out, "null"...)
		if e.strict && !at(p.t, ptr).IsZero() {
			e.fail(errFunction)
		}
	}
}

func (e *encoder) float(f float64) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		e.out = strconv.AppendQuote(e.out, strconv.FormatFloat(f, 'g', -1, 64))
		return
	}
	e.out = strconv.AppendFloat(e.out, f, 'g', -1, 64)
}

// time writes a time with its zone, and its reading of the monotonic clock after an "@".
func (e *encoder) time(t time.Time) {
	if t.IsZero() {
		e.out = append(e.out, `""`...)
		return
	}
	e.out = t.AppendFormat(append(e.out, '"'), time.RFC3339Nano)
	if ns, has := monotonic(t); has {
		e.out = strconv.AppendInt(append(e.out, '@'), ns, 10)
	}
	e.out = append(e.out, '"')
}

// text writes a text without its secrets; one that is no UTF-8 in a list, as base64.
func (e *encoder) text(s string) {
	if e.masks != nil {
		s = e.masks.text(s)
	}
	e.quote(s)
}

func (e *encoder) quote(s string) {
	plain := true
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	switch {
	case plain:
		e.out = append(append(append(e.out, '"'), s...), '"')
	case utf8.ValidString(s):
		text, err := json.Marshal(s)
		if err != nil {
			panic(err) // a string is always encoded
		}
		e.out = append(e.out, text...)
	default:
		e.out = append(base64.StdEncoding.AppendEncode(append(e.out, `["`...), []byte(s)), `"]`...)
	}
}

func (e *encoder) masked(b []byte) []byte {
	if e.masks == nil {
		return b
	}
	return []byte(e.masks.text(string(b)))
}

// fields writes a struct without the fields that are zero.
func (e *encoder) fields(p *plan, ptr unsafe.Pointer) {
	e.out = append(e.out, '{')
	start := len(e.out)
	for i := range p.fields {
		f := &p.fields[i]
		below := unsafe.Add(ptr, f.offset)
		v := at(f.plan.t, below)
		if v.IsZero() {
			continue
		}
		if f.plan.form == formNone {
			if e.strict {
				e.fail(errFunction)
			}
			continue
		}
		if len(e.out) > start {
			e.out = append(e.out, ',')
		}
		e.out = append(append(append(e.out, '"'), f.name...), '"', ':')
		if f.secret && e.masks != nil {
			e.masks.learn(v, f.name)
		}
		e.at(f.plan, below)
	}
	e.out = append(e.out, '}')
}

// entries writes a map in the order of its keys.
func (e *encoder) entries(p *plan, m reflect.Value) {
	if m.IsNil() {
		e.out = append(e.out, "null"...)
		return
	}
	type entry struct{ key, value []byte }
	entries, dict := make([]entry, 0, m.Len()), p.form == formDict
	key, value := reflect.New(p.key.t).Elem(), reflect.New(p.elem.t).Elem()
	outer := e.out
	e.out = make([]byte, 0, 64*m.Len())
	for it := m.MapRange(); it.Next(); {
		key.SetIterKey(it)
		value.SetIterValue(it)
		start := len(e.out)
		dict = dict && utf8.ValidString(key.String())
		if p.form == formDict && e.masks != nil && e.c.isSecret(key.String()) {
			e.masks.learn(value, key.String())
		}
		e.at(p.key, key.Addr().UnsafePointer())
		middle := len(e.out)
		e.at(p.elem, value.Addr().UnsafePointer())
		entries = append(entries, entry{e.out[start:middle:middle], e.out[middle:len(e.out):len(e.out)]})
	}
	slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	e.out = outer
	open, between, end, shut := "[", ",", "]", "]"
	if dict {
		open, between, end, shut = "", ":", "", "}"
		e.out = append(e.out, '{')
	} else {
		e.out = append(e.out, '[')
	}
	for i, x := range entries {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = append(append(append(append(append(e.out, open...), x.key...), between...), x.value...), end...)
	}
	e.out = append(e.out, shut...)
}

func (e *encoder) list(p *plan, l reflect.Value) {
	if l.Kind() == reflect.Slice && l.IsNil() {
		e.out = append(e.out, "null"...)
		return
	}
	e.out = append(e.out, '[')
	for i := range l.Len() {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.at(p.elem, l.Index(i).Addr().UnsafePointer())
	}
	e.out = append(e.out, ']')
}

// held writes what is in an interface, under the name of its type.
func (e *encoder) held(v reflect.Value) {
	if v.IsNil() {
		e.out = append(e.out, "null"...)
		return
	}
	x := addressable(v.Elem())
	name, err := e.c.typeName(x.Type())
	if err != nil {
		e.fail(err)
		return
	}
	e.out = append(append(append(e.out, `{"`...), name...), `":`...)
	e.at(e.c.plan(x.Type()), x.Addr().UnsafePointer())
	e.out = append(e.out, '}')
}
