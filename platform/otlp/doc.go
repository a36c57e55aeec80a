// Package otlp sends spans to an OpenTelemetry collector: OTLP over HTTP, in protobuf, in batches (ADR 0081). It owns a
// bounded queue and the counts of what was sent and dropped.
//
// It never decides what is traced, and a collector that is slow, hangs or is away costs its caller nothing: what does
// not fit into the queue is dropped and counted.
package otlp
