// Package trace owns the trace of one write on its way through both programs: the context that travels with messages as
// plain data (W3C traceparent), spans with bounded attributes, and the tracer that starts them. A nil *Tracer is off:
// it starts nothing, and its calls allocate nothing.
//
// It never sends a span anywhere (a Sink does), logs, or decides what becomes of a write: nothing may depend on a
// trace. Shells start and end spans; a core only passes the text of a context on.
package trace
