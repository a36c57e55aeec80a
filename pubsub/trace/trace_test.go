package trace

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"
)

// kept is a sink for tests.
type kept struct{ all []Record }

func (k *kept) Export(r *Record) { k.all = append(k.all, *r) }

func TestATraceparentIsReadOnlyInItsOwnForm(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if c := Parse(good); c.String() != good || !c.Sampled || c.TraceID() != good[3:35] || c.SpanID() != good[36:52] {
		t.Errorf("%s is %+v", good, c)
	}
	if c := Parse(good[:54] + "0"); c.Sampled || c.IsZero() || c.String() != good[:54]+"0" {
		t.Errorf("an unsampled one is %+v", c)
	}
	for _, bad := range []string{"", good + "-x", good[:54], "01" + good[2:], strings.ToUpper(good),
		"00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", strings.ReplaceAll(good, "-", "_"),
		strings.Replace(good, "a", "g", 1), strings.Repeat("x", 1<<20)} {
		if c := Parse(bad); !c.IsZero() || c.String() != "" {
			t.Errorf("%.80q is %+v", bad, c)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Fuzz(func(t *testing.T, text string) {
		if c := Parse(text); !c.IsZero() && Parse(c.String()) != c {
			t.Errorf("%q is %+v", text, c)
		}
	})
}

func TestSpansFormATree(t *testing.T) {
	var k kept
	tr := New(&k, 1)
	top := tr.Start(Context{}, "top", Server)
	below := tr.Below(Parse(top.Context().String()), "below", Internal)
	below.Set("key", "value")
	below.Fail("why")
	below.End()
	below.End()
	top.End()
	if len(k.all) != 2 {
		t.Fatalf("%d spans", len(k.all))
	}
	b, a := k.all[0], k.all[1]
	if a.Trace != b.Trace || b.Parent != a.Span || a.Parent != [8]byte{} || !b.Failed || b.Error != "why" ||
		b.Attrs[0] != (Attr{"key", "value"}) || b.Start.Before(a.Start) || a.End.Before(b.End) || a.Kind != Server {
		t.Errorf("top %+v\nbelow %+v", a, b)
	}
}

func TestTheStartOfATraceDecidesWhetherItIsSampled(t *testing.T) {
	var k kept
	none := New(&k, 0)
	s := none.Start(Context{}, "a", Internal)
	if s.On() || s.Context().IsZero() || s.Context().Sampled {
		t.Errorf("unsampled: %+v", s.Context())
	}
	if again := New(&k, 1).Start(s.Context(), "b", Internal); again.On() || again.Context() != s.Context() {
		t.Errorf("below an unsampled one: %+v", again.Context())
	}
	parent := Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if c := none.Start(parent, "c", Internal); !c.On() || c.Context().Trace != parent.Trace {
		t.Error("a sampled parent from elsewhere does not count")
	}
	if New(&k, 1).Below(Context{}, "d", Internal).On() {
		t.Error("Below starts a trace")
	}
	sampled := 0
	half := New(&k, 0.5)
	for range 4000 {
		if half.Start(Context{}, "e", Internal).On() {
			sampled++
		}
	}
	if sampled < 1600 || sampled > 2400 { // 12 standard deviations
		t.Errorf("%d of 4000 at a ratio of 0.5", sampled)
	}
}

// A hostile text neither breaks the form nor takes more than its share.
func TestSpansAreBounded(t *testing.T) {
	var k kept
	tr := New(&k, 1)
	top := tr.Start(Context{}, strings.Repeat("n", 9999), Internal)
	for range MaxAttrs + 3 {
		top.Set("k", strings.Repeat("ä", 9999)+"\xff")
	}
	top.Set("k", "")
	top.Fail("\xff" + strings.Repeat("x", 9999))
	for range MaxSpans + 8 {
		s := tr.Below(top.Context(), "b", Internal)
		if !s.On() && s.Context() != top.Context() {
			t.Fatal("what follows a span that is left out is not below the one above")
		}
		s.End()
	}
	top.End()
	r := k.all[len(k.all)-1]
	if len(k.all) != MaxSpans || tr.Truncated() != 9 {
		t.Errorf("%d spans, %d left out", len(k.all), tr.Truncated())
	}
	if len(r.Attrs) != MaxAttrs || r.Dropped != 3 || len(r.Name) != MaxText || len(r.Error) > MaxText+2 {
		t.Errorf("%d attributes, %d dropped, a name of %d bytes", len(r.Attrs), r.Dropped, len(r.Name))
	}
	for _, text := range []string{r.Attrs[0].Value, r.Error, cut("a\xff\xc3"), cut(strings.Repeat("x", MaxText-1) + "ä")} {
		if !utf8.ValidString(text) || len(text) > MaxText+2 {
			t.Errorf("%q", text)
		}
	}
	for range maxTraces * 2 { // the memory of traces is bounded
		tr.Start(Context{}, "x", Internal)
	}
	if len(tr.spans) > maxTraces+1 {
		t.Errorf("%d traces are remembered", len(tr.spans))
	}
}

// off is the path of every call with tracing off.
func off(t *Tracer, ctx context.Context) {
	c := From(ctx)
	s := t.Start(c, "reconcile", Internal)
	op := t.Below(s.Context(), "op", Internal)
	if op.On() {
		op.Set("id", "x")
	}
	op.Fail("why")
	op.End()
	s.End()
	_ = With(ctx, s.Context())
	if s.Context().String() != "" {
		panic("a context without a trace")
	}
}

func TestOffCostsNoAllocation(t *testing.T) {
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() { off(nil, ctx) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOff(b *testing.B) {
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		off(nil, ctx)
	}
}

type discard struct{}

func (discard) Export(*Record) {}

func BenchmarkOn(b *testing.B) {
	tr := New(discard{}, 1)
	b.ReportAllocs()
	for b.Loop() {
		s := tr.Start(Context{}, "op", Internal)
		s.Set("id", "x")
		s.End()
	}
}
