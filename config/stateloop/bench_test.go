package stateloop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// aThousand are n parameters, each of which depends on the one before, and a report about each,
// some of them twice and some of what nobody wants. The ids are as long as ours.
func aThousand(n int) (Config, EdgePeerConfigurationState) {
	want, got := Config{Generation: now}, EdgePeerConfigurationState{Generation: now}
	words := append(slices.Clone(reportableStates), Creating)
	for i := range n {
		id := fmt.Sprintf("adapter/a0000000-0000-4000-8000-%012d/0", i*7919%n)
		w := DesiredParameter{ID: id, Target: ToBePresent}
		if i > 0 {
			w.Dependencies = []string{want.Parameters[i-1].ID}
		}
		want.Parameters = append(want.Parameters, w)
		r := Reported{ID: id, State: words[i%len(words)], Generation: now, Since: foundAt}
		got.Parameters = append(got.Parameters, r)
		switch {
		case i%10 == 0:
			r.Since = r.Since.Add(time.Second)
			got.Parameters = append(got.Parameters, r)
		case i%10 == 1:
			r.ID = "x" + r.ID
			got.Parameters = append(got.Parameters, r)
		}
	}
	return want, got
}

// BenchmarkDerive derives 1,000 parameters (bar: 5 ms), beside decoding the JSON of what was
// derived, which is the least that anybody has to do who is told of it.
func BenchmarkDerive(b *testing.B) {
	want, got := aThousand(1000)
	doc, err := json.Marshal(Derive(want, got).Document())
	if err != nil {
		b.Fatal(err)
	}
	var derive, decode, sum time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		d := Derive(want, got)
		derived := time.Now()
		var out StateDocument
		if err := json.Unmarshal(doc, &out); err != nil || len(out.Parameters) != len(d.Parameters) {
			b.Fatal(err)
		}
		decoded := time.Now()
		Summarize(Peer{Online: true, LastReport: foundAt}, want, got)
		derive, decode, sum = derive+derived.Sub(start), decode+decoded.Sub(derived), sum+time.Since(decoded)
	}
	b.ReportMetric(float64(derive.Microseconds())/float64(b.N), "derive-µs")
	b.ReportMetric(float64(sum.Microseconds())/float64(b.N), "summarize-µs")
	b.ReportMetric(float64(decode.Microseconds())/float64(b.N), "decode-µs")
	b.ReportMetric(derive.Seconds()/decode.Seconds(), "derive/decode")
}

// BenchmarkReadOffline reads both files of 1,000 parameters, with the graph, and derives.
func BenchmarkReadOffline(b *testing.B) {
	want, got := aThousand(1000)
	var w, r strings.Builder
	for i, p := range want.Parameters {
		on, err := json.Marshal(append([]string{}, p.Dependencies...))
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(&w, `%s{"id":%q,"target":"present","dependencies":%s}`, strings.Repeat(",", min(i, 1)), p.ID, on)
	}
	for i, p := range got.Parameters {
		if p.State == Creating {
			p.State = Present
		}
		fmt.Fprintf(&r, `%s{"id":%q,"state":%q,"timestamp":%q,"message":""}`, strings.Repeat(",", min(i, 1)), p.ID,
			string(p.State), p.Since.Format(time.RFC3339))
	}
	desired, reported := []byte(`{"generation":7,"parameters":[`+w.String()+`]}`),
		[]byte(`{"generation":7,"parameters":[`+r.String()+`]}`)
	b.ReportAllocs()
	for b.Loop() {
		want, faults := ReadDesired(desired)
		got, more := ReadReported(reported)
		if faults != nil || more != nil {
			b.Fatal(faults, more)
		}
		Derive(want, got)
	}
}
