package tape

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"
)

// Bounds on recordings, which may be anybody's: a line has the config of a node, and its states, with room.
const (
	maxLine    = 64 << 20
	maxSegment = 1 << 30
	maxValues  = 4 << 20   // of one line, with the shared ones
	maxTexts   = 256 << 20 // octets of the shared values of a segment
	maxUnknown = 1000      // names of unknown fields
)

// format is that of the lines. A field or type more or less is no other format: they have names.
const format = 1

// ErrDamaged is the fault of a segment that goes on behind what can't be read: its process did not end there.
var ErrDamaged = errors.New("damaged: what follows is not replayed")

// Kind is a kind of core, of which a Player makes as many as a recording has.
type Kind struct {
	state, event reflect.Type
	step         func(core, event any) []any // effects by their addresses
}

// KindOf returns the kind of the cores that make returns. After, if any, is what the actor of the core does to it after
// each step.
func KindOf[C Core[E, F], E, F any](after func(C)) Kind {
	return Kind{state: reflect.TypeFor[C](), event: reflect.TypeFor[E](), step: func(core, event any) []any {
		c := core.(C)
		effects := c.Step(*event.(*E))
		if after != nil {
			after(c)
		}
		out := make([]any, len(effects))
		for i := range effects {
			out[i] = &effects[i]
		}
		return out
	}}
}

// safely steps a core, and returns how it panicked: the recording may be of another release, whose states are others.
func (k Kind) safely(core, event any) (effects []any, panics string) {
	defer func() {
		if why := recover(); why != nil {
			panics = fmt.Sprint(why)
		}
	}()
	return k.step(core, event), ""
}

// Moment is one line of a recording, replayed.
type Moment struct {
	N    uint64
	At   time.Time
	Core string // the kind of core, and of what it is
	Of   string

	Event   json.RawMessage   // with the name of its type
	Effects []json.RawMessage // as recorded
	Now     []json.RawMessage // as this release decides, if that differs; nil otherwise
	Differs bool              // in effects
	// State is what is different in the state before the step, as recorded and as replayed; "" for nothing.
	State string
	Skip  string // why the step was not replayed; "" if it was
	// Panics is how this release panics in the step, "" if it does not. It differs if the recorded one did otherwise.
	Panics string

	Said json.RawMessage
	Head *Head
	Lost int
	End  string // why nothing more of that process was recorded; "" if it was
}

// Player replays a recording.
type Player struct {
	codec   *Codec
	kinds   map[string]Kind
	cores   map[string]any
	shared  map[string]any    // some trees, by digest
	held    int               // values in them
	texts   map[string][]byte // texts, by digest
	decoder decoder
	start   uint64
	left    int // values that may be shown of a line
}

// NewPlayer returns a player of cores of these kinds.
func NewPlayer(c *Codec, kinds map[string]Kind) *Player {
	p := &Player{codec: c, kinds: kinds, cores: map[string]any{}}
	p.decoder = decoder{c: c, unknown: map[string]bool{}, shared: p.tree}
	return p
}

// tree returns a shared value. Those of a line in memory are bounded, not those of a segment: it may be read again.
func (p *Player) tree(digest string) (any, bool) {
	if t, held := p.shared[digest]; held {
		return t, true
	}
	text, known := p.texts[digest]
	if !known {
		return nil, false
	}
	n := values(text)
	if p.decoder.left -= n; p.decoder.left < 0 {
		return nil, false
	}
	t, err := tree(text)
	if err != nil {
		return nil, false
	}
	if p.held += n; p.held > maxValues {
		clear(p.shared)
		p.held = n
	}
	p.shared[digest] = t
	return t, true
}

// values returns how many values a text of JSON has, or some more.
func values(text []byte) (n int) {
	for _, c := range text {
		if c == ',' || c == '[' || c == '{' {
			n++
		}
	}
	return n + 1
}

// Unknown returns the fields in the recording that this release does not know, as Type.Field.
func (p *Player) Unknown() []string {
	var out []string
	for name := range p.decoder.unknown {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Core returns the core of a kind and of what it is, nil if there is none yet.
func (p *Player) Core(kind, of string) any { return p.cores[kind+" "+of] }

// State returns the state of a core as plain data, without what is zero; nil if there is none.
func (p *Player) State(kind, of string) any {
	core := p.Core(kind, of)
	if core == nil {
		return nil
	}
	e := encoder{c: p.codec, strict: true}
	e.value(core)
	p.know(e.blobs)
	return p.Whole(e.out)
}

// know keeps values that a replay shares, to show them.
func (p *Player) know(blobs []blob) {
	for _, b := range blobs {
		p.texts[b.digest] = b.text
	}
}

// Play replays one segment, until each returns false: it is called after each step. A segment without an end is played
// as far as it goes: the process or the machine ended in the middle of it. One that goes on behind a fault is
// ErrDamaged after the part before. Any other error means that nothing of it could be read.
func (p *Player) Play(segment io.Reader, each func(Moment) bool) (more bool, err error) {
	p.shared, p.held, p.texts = map[string]any{}, 0, map[string][]byte{}
	lines := bufio.NewScanner(segment)
	lines.Buffer(make([]byte, 0, 1<<20), maxLine)
	size, texts, n := 0, 0, 0
	for lines.Scan() {
		n++
		if size += len(lines.Bytes()); size > maxSegment {
			return true, fmt.Errorf("a segment of more than %d octets: no daemon writes such", maxSegment)
		}
		p.decoder.left, p.left = maxValues, maxValues
		l, err := read(lines.Bytes(), n == 1)
		switch {
		case err == nil:
		case n == 1:
			return true, fmt.Errorf("line 1: no recording: %w", err)
		case errors.Is(err, errLarge) || lines.Scan():
			return true, cutOrDamaged(err, n)
		default:
			return true, cutOrDamaged(lines.Err(), n) // within a line
		}
		if l.Digest != "" {
			if texts += len(l.Is); texts > maxTexts {
				return true, fmt.Errorf("line %d: %w: %w", n, ErrDamaged, errLarge)
			}
			p.texts[l.Digest] = bytes.Clone(l.Is)
			delete(p.shared, l.Digest)
			continue
		}
		if m := p.moment(l); !each(m) {
			return false, nil
		}
	}
	if err := lines.Err(); err != nil && n == 0 {
		return true, err
	}
	return true, cutOrDamaged(lines.Err(), n)
}

// cutOrDamaged returns the fault of the text behind line n, if it has not just ended.
func cutOrDamaged(err error, n int) error {
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return fmt.Errorf("line %d: %w: %w", n, ErrDamaged, err)
}

// read reads a line. The first one must be a head.
func read(text []byte, first bool) (l line, err error) {
	if values(text) > maxValues {
		return l, errLarge
	}
	if err = json.Unmarshal(text, &l); err != nil {
		return l, err
	}
	if first && l.Head == nil {
		return l, errors.New("it must begin with the head of a segment")
	}
	if l.Head != nil && l.Head.Format > format {
		return l, fmt.Errorf("format %d: must be %d at most for this version", l.Head.Format, format)
	}
	return l, nil
}

func tree(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v)
}

// moment replays one line.
func (p *Player) moment(l line) Moment {
	m := Moment{N: l.N, At: l.At, Core: l.Core, Of: l.Of, Event: l.Event, Effects: l.Effects, Said: l.Said, Head: l.Head,
		Lost: l.Lost, End: l.End}
	switch {
	case l.Head != nil:
		if m.At = l.Head.At; l.Head.Start != p.start { // another process: its cores began anew
			p.start = l.Head.Start
			clear(p.cores)
		}
	case l.Lost > 0:
		clear(p.cores)
	case l.Core != "":
		m.Skip = p.step(l, &m)
	}
	return m
}

// step replays a step, and returns why it could not.
func (p *Player) step(l line, m *Moment) (why string) {
	name := l.Core + " " + l.Of
	kind, known := p.kinds[l.Core]
	if !known {
		return "this release has no core of this kind"
	}
	if l.New {
		delete(p.cores, name)
	}
	if l.Why != "" && l.Why != panicked {
		delete(p.cores, name)
		return l.Why
	}
	if len(l.State) > 0 {
		if m.State, why = p.restore(name, kind, l.State); why != "" {
			return why
		}
	}
	core := p.cores[name]
	if core == nil {
		return "its state is in a part of the recording that is lost"
	}
	t, err := tree(l.Event)
	if err != nil {
		return err.Error()
	}
	event, err := p.decoder.value(kind.event, t)
	if err != nil {
		delete(p.cores, name)
		return "event: " + err.Error()
	}
	effects, panics := kind.safely(core, event.Addr().Interface())
	if m.Panics = panics; panics != "" || l.Why == panicked {
		delete(p.cores, name)
		m.Differs = (panics != "") != (l.Why == panicked)
		return ""
	}
	e := encoder{c: p.codec}
	var now []json.RawMessage
	for _, f := range effects {
		e.out = nil
		e.value(f)
		now = append(now, e.out)
	}
	if e.err != nil {
		delete(p.cores, name)
		return "effects: " + e.err.Error()
	}
	if !slices.EqualFunc(l.Effects, now, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		m.Differs, m.Now = true, now
		p.know(e.blobs)
	}
	return ""
}

// restore sets the state of a core to the recorded one, and returns how that differs from the replayed one.
func (p *Player) restore(name string, kind Kind, recorded json.RawMessage) (differs, why string) {
	t, err := tree(recorded)
	if err != nil {
		return "", err.Error()
	}
	core, err := p.decoder.state(kind.state, t)
	if err != nil {
		delete(p.cores, name)
		return "", "state: " + err.Error()
	}
	if old := p.cores[name]; old != nil {
		e := encoder{c: p.codec, strict: true}
		if e.value(old); e.err == nil && !bytes.Equal(e.out, recorded) {
			p.know(e.blobs)
			differs = difference(p.Whole(recorded), p.Whole(e.out))
		}
	}
	p.cores[name] = core.Interface()
	return differs, ""
}

// Difference says what is different in the effects of a moment, a line for each place.
func (p *Player) Difference(m Moment) string {
	list := func(of []json.RawMessage) any {
		out := make([]any, len(of))
		for i, f := range of {
			out[i] = p.Whole(f)
		}
		return out
	}
	return difference(list(m.Effects), list(m.Now))
}

// Whole returns a text with its shared values in their places.
func (p *Player) Whole(text []byte) any {
	t, err := tree(text)
	if err != nil {
		return string(text)
	}
	return p.whole(t, 0)
}

func (p *Player) whole(t any, depth int) any {
	if p.left--; p.left < 0 {
		return "…"
	}
	switch v := t.(type) {
	case map[string]any:
		if digest, is := v["="].(string); is && len(v) == 1 && depth < maxDepth {
			text, known := p.texts[digest]
			if below, err := tree(text); known && err == nil {
				return p.whole(below, depth+1)
			}
			return "(lost)"
		}
		if _, numbered := v["&"].(json.Number); numbered && len(v) <= 2 {
			if below, first := v["is"]; first {
				return p.whole(below, depth+1)
			}
			return "(as above)"
		}
		for name := range v {
			v[name] = p.whole(v[name], depth+1)
		}
	case []any:
		for i := range v {
			v[i] = p.whole(v[i], depth+1)
		}
	}
	return t
}
