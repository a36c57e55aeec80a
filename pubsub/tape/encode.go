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
	taught bool   // there was a secret that was unknown
	strict bool   // of a state: functions are faults, and two pointers to one thing remain two
	err    error
	depth  int
	free   bool                   // within a text for people
	within int                    // shared values, which stand by themselves
	known  map[unsafe.Pointer]int // numbers of the things that a state points to
}

// value writes any value, nil included.
func (e *encoder) value(v any) {
	if v == nil {
		e.out = append(e.out, "null"...)
		return
	}
	x := addressable(reflect.ValueOf(v))
	e.known = nil
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
	if p.shared {
		e.within++
		defer func() { e.within-- }()
	}
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
		e.quote(string(text)) // an address, an identifier: no secret
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
		e.pointer(p, *(*unsafe.Pointer)(ptr))
	case formInterface:
		e.held(at(p.t, ptr))
	case formError:
		if err, _ := at(p.t, ptr).Interface().(error); err == nil {
			e.out = append(e.out, "null"...)
		} else {
			was := e.free
			e.free = true
			e.text(err.Error())
			e.free = was
		}
	default:
		e.out = append(e.out, "null"...)
		if e.strict && !at(p.t, ptr).IsZero() {
			e.fail(errFunction)
		}
	}
}

// pointer writes what a pointer points to. In a state it has a number there, under which it stands once: cores change
// one thing in several places.
func (e *encoder) pointer(p *plan, to unsafe.Pointer) {
	switch n, again := e.known[to]; {
	case to == nil:
		e.out = append(e.out, "null"...)
	case !e.strict || e.within > 0 || p.elem.t.Size() == 0:
		e.at(p.elem, to)
	case again:
		e.out = append(strconv.AppendInt(append(e.out, `{"&":`...), int64(n), 10), '}')
	default:
		if e.known == nil {
			e.known = map[unsafe.Pointer]int{}
		}
		e.known[to] = len(e.known) + 1
		e.out = append(strconv.AppendInt(append(e.out, `{"&":`...), int64(len(e.known)), 10), `,"is":`...)
		e.at(p.elem, to)
		e.out = append(e.out, '}')
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
		s = e.masks.text(s, e.free)
	}
	if e.free && e.c.Mask != nil { // also in a replay: its texts are compared with masked ones
		s = e.c.Mask(s)
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
		e.out = append(e.out, jsonText(s)...)
	default:
		e.out = append(base64.StdEncoding.AppendEncode(append(e.out, `["`...), []byte(s)), `"]`...)
	}
}

// jsonText returns a text in the quotes of JSON.
func jsonText(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string is always encoded
	}
	return string(text)
}

func (e *encoder) masked(b []byte) []byte {
	if e.masks == nil {
		return b
	}
	return []byte(e.masks.text(string(b), true))
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
		if f.secret && e.secret(f.plan, v, f.name) {
			continue
		}
		was := e.free
		e.free = was || f.free
		e.at(f.plan, below)
		e.free = was
	}
	e.out = append(e.out, '}')
}

// secret learns what a field or key with the name of a secret holds, and writes it if that is one text, of any length:
// a short one is replaced nowhere else.
func (e *encoder) secret(p *plan, v reflect.Value, name string) (written bool) {
	if e.masks == nil {
		return false
	}
	e.taught = e.masks.learn(v, name) || e.taught
	if p.form != formString {
		return false
	}
	if word := e.masks.word(v.String()); word != "" {
		e.quote(word)
		return true
	}
	return false
}

// entries writes a map in the order of its keys.
func (e *encoder) entries(p *plan, m reflect.Value) {
	if m.IsNil() {
		e.out = append(e.out, "null"...)
		return
	}
	type entry struct {
		text []byte
		key  reflect.Value
	}
	entries, dict := make([]entry, 0, m.Len()), p.form == formDict
	outer := e.out
	e.out = make([]byte, 0, 32*m.Len())
	for it := m.MapRange(); it.Next(); {
		key := addressable(it.Key())
		dict = dict && utf8.ValidString(key.String())
		start := len(e.out)
		if p.form == formDict {
			e.quote(key.String())
		} else {
			e.at(p.key, key.Addr().UnsafePointer())
		}
		entries = append(entries, entry{e.out[start:len(e.out):len(e.out)], key})
	}
	slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a.text, b.text) })
	e.out = outer
	open, between, end, shut := "[", ",", "]", "]"
	if dict {
		open, between, end, shut = "", ":", "", "}"
		e.out = append(e.out, '{')
	} else {
		e.out = append(e.out, '[')
	}
	value := reflect.New(p.elem.t).Elem()
	for i, x := range entries {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		value.Set(m.MapIndex(x.key))
		e.out = append(append(append(e.out, open...), x.text...), between...)
		if p.form != formDict || !e.c.isSecret(x.key.String()) || !e.secret(p.elem, value, x.key.String()) {
			e.at(p.elem, value.Addr().UnsafePointer())
		}
		e.out = append(e.out, end...)
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
