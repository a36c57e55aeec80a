package trace

import (
	"context"
	"encoding/hex"
)

// Context is the place in a trace that later spans belong to. The zero value belongs to no trace.
type Context struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool // its spans are recorded
}

// IsZero reports whether c belongs to no trace.
func (c Context) IsZero() bool { return c == Context{} }

// TraceID returns the ID of the trace in hexadecimal.
func (c Context) TraceID() string { return hex.EncodeToString(c.Trace[:]) }

// SpanID returns the ID of the span in hexadecimal.
func (c Context) SpanID() string { return hex.EncodeToString(c.Span[:]) }

// String returns the traceparent of version 00 (https://www.w3.org/TR/trace-context/), "" for the zero value.
func (c Context) String() string {
	switch {
	case c.IsZero():
		return ""
	case c.Sampled:
		return "00-" + c.TraceID() + "-" + c.SpanID() + "-01"
	}
	return "00-" + c.TraceID() + "-" + c.SpanID() + "-00"
}

// The parts of a traceparent: version, trace, span and flags, with a hyphen between them.
const (
	traceAt, spanAt, flagsAt = 3, 36, 53
	textLen                  = 55
)

// Parse reads a traceparent. Whatever is not one of version 00 is the zero value: a trace is never worth a refusal.
func Parse(text string) Context {
	var c Context
	if len(text) != textLen || text[:traceAt] != "00-" || text[spanAt-1] != '-' || text[flagsAt-1] != '-' {
		return Context{}
	}
	var flags [1]byte
	if !decode(c.Trace[:], text[traceAt:spanAt-1]) || !decode(c.Span[:], text[spanAt:flagsAt-1]) ||
		!decode(flags[:], text[flagsAt:]) || c.Trace == [16]byte{} || c.Span == [8]byte{} {
		return Context{}
	}
	c.Sampled = flags[0]&1 != 0
	return c
}

// decode decodes lower-case hexadecimal digits, the only ones that the specification allows.
func decode(to []byte, text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	n, err := hex.Decode(to, []byte(text))
	return err == nil && n == len(to)
}

type key struct{}

// With returns a context.Context that carries c. The zero value needs none.
func With(ctx context.Context, c Context) context.Context {
	if c.IsZero() {
		return ctx
	}
	return context.WithValue(ctx, key{}, c)
}

// From returns what With added, or the zero value.
func From(ctx context.Context) Context {
	c, _ := ctx.Value(key{}).(Context)
	return c
}
