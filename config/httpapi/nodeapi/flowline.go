package nodeapi

import (
	"encoding/json"
	"strconv"
	"time"
)

// AppendLine appends the record as a line of JSON, with the same octets as encoding/json, in a fifth of the time: it is
// a large part of what a flow costs.
func (r *FlowRecord) AppendLine(b []byte) []byte {
	b = appendTime(append(b, `{"time":`...), r.Time)
	b = appendString(append(b, `,"kind":`...), r.Kind)
	for _, f := range [...]struct{ name, value string }{
		{`,"network":`, r.Network}, {`,"adapter":`, r.Adapter}, {`,"name":`, r.Name}, {`,"direction":`, r.Direction},
		{`,"protocol":`, r.Protocol}, {`,"local":`, r.Local}, {`,"remote":`, r.Remote}, {`,"nat":`, r.NAT},
		{`,"remoteName":`, r.RemoteName},
		{`,"rule":`, r.Rule}, {`,"builtIn":`, r.BuiltIn},
	} {
		if f.value != "" {
			b = appendString(append(b, f.name...), f.value)
		}
	}
	if r.Denied {
		b = append(b, `,"denied":true`...)
	}
	b = strconv.AppendUint(append(b, `,"packetsOut":`...), r.PacketsOut, 10)
	b = strconv.AppendUint(append(b, `,"bytesOut":`...), r.BytesOut, 10)
	b = strconv.AppendUint(append(b, `,"packetsIn":`...), r.PacketsIn, 10)
	b = strconv.AppendUint(append(b, `,"bytesIn":`...), r.BytesIn, 10)
	if !r.Start.IsZero() {
		b = appendTime(append(b, `,"start":`...), r.Start)
	}
	if !r.End.IsZero() {
		b = appendTime(append(b, `,"end":`...), r.End)
	}
	if r.Lost != 0 {
		b = strconv.AppendUint(append(b, `,"lost":`...), r.Lost, 10)
	}
	return append(b, '}', '\n')
}

func appendTime(b []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}

// appendString appends a string that encoding/json leaves as it is; of another one, what encoding/json makes of it.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string
			}
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
