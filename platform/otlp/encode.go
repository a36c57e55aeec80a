package otlp

import (
	"encoding/binary"
	"time"

	"edgespan/pubsub/trace"
)

// Wire types of protobuf (https://protobuf.dev/programming-guides/encoding/).
const (
	varint = 0
	bits64 = 1
	sized  = 2
	bits32 = 5
)

// Status codes of a span.
const statusError = 2

// appendTag appends the key of a field.
func appendTag(to []byte, field, wire uint64) []byte { return binary.AppendUvarint(to, field<<3|wire) }

func appendText(to []byte, field uint64, text string) []byte {
	to = binary.AppendUvarint(appendTag(to, field, sized), uint64(len(text)))
	return append(to, text...)
}

func appendNumber(to []byte, field, n uint64) []byte {
	if n == 0 {
		return to
	}
	return binary.AppendUvarint(appendTag(to, field, varint), n)
}

// appendMessage appends a field that is a message of its own, which write appends.
func appendMessage(to []byte, field uint64, write func([]byte) []byte) []byte {
	return appendText(to, field, string(write(nil)))
}

// appendAttr appends a KeyValue with a string.
func appendAttr(to []byte, field uint64, a trace.Attr) []byte {
	return appendMessage(to, field, func(b []byte) []byte {
		b = appendText(b, 1, a.Key)
		return appendMessage(b, 2, func(b []byte) []byte { return appendText(b, 1, a.Value) })
	})
}

// encode returns an ExportTraceServiceRequest of one resource, with the field numbers of opentelemetry-proto 1.
func encode(resource []trace.Attr, version string, spans []*trace.Record) []byte {
	return appendMessage(nil, 1, func(b []byte) []byte {
		b = appendMessage(b, 1, func(b []byte) []byte {
			for _, a := range resource {
				b = appendAttr(b, 1, a)
			}
			return b
		})
		return appendMessage(b, 2, func(b []byte) []byte {
			b = appendMessage(b, 1, func(b []byte) []byte { return appendText(appendText(b, 1, "edgespan"), 2, version) })
			for _, s := range spans {
				b = appendMessage(b, 2, func(b []byte) []byte { return appendSpan(b, s) })
			}
			return b
		})
	})
}

func appendSpan(b []byte, s *trace.Record) []byte {
	b = appendText(b, 1, string(s.Trace[:]))
	b = appendText(b, 2, string(s.Span[:]))
	if s.Parent != [8]byte{} {
		b = appendText(b, 4, string(s.Parent[:]))
	}
	b = appendNumber(appendText(b, 5, s.Name), 6, uint64(s.Kind))
	b = appendTime(appendTime(b, 7, s.Start), 8, s.End)
	for _, a := range s.Attrs {
		b = appendAttr(b, 9, a)
	}
	b = appendNumber(b, 10, uint64(s.Dropped))
	if s.Failed {
		b = appendMessage(b, 15, func(b []byte) []byte { return appendNumber(appendText(b, 2, s.Error), 3, statusError) })
	}
	return binary.LittleEndian.AppendUint32(appendTag(b, 16, bits32), 1) // sampled
}

func appendTime(b []byte, field uint64, t time.Time) []byte {
	return binary.LittleEndian.AppendUint64(appendTag(b, field, bits64), uint64(t.UnixNano()))
}
