package nodeapi

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// TestALineIsWhatEncodingJSONMakes sets each field by itself and all of them together, also those that are added later.
func TestALineIsWhatEncodingJSONMakes(t *testing.T) {
	same := func(r FlowRecord) {
		t.Helper()
		want, err := json.Marshal(r)
		if got := string(r.AppendLine([]byte("x"))); err != nil || got != "x"+string(want)+"\n" {
			t.Errorf("got  %s\nwant %s, %v", got, want, err)
		}
	}
	set := func(v reflect.Value, text string, n uint64) {
		switch v.Interface().(type) {
		case string:
			v.SetString(text)
		case bool:
			v.SetBool(n > 0)
		case uint64:
			v.SetUint(n)
		case time.Time:
			v.Set(reflect.ValueOf(time.Unix(int64(n%1e10), 123000).UTC()))
		default:
			t.Fatalf("a field of type %s: extend this test", v.Type())
		}
	}
	same(FlowRecord{})
	for _, text := range []string{"udp", "ü ☃ \u2028", `"\<>&'`, "\x00\x1f\x7f\n", "\xff", "[fd00::1]:80"} {
		var all FlowRecord
		for i := range reflect.TypeFor[FlowRecord]().NumField() {
			var one FlowRecord
			set(reflect.ValueOf(&one).Elem().Field(i), text, 7)
			set(reflect.ValueOf(&all).Elem().Field(i), text, 1<<64-1)
			same(one)
		}
		same(all)
	}
	same(FlowRecord{Time: time.Date(2026, 7, 1, 12, 0, 0, 5, time.FixedZone("", 2*3600))})
}

func BenchmarkLine(b *testing.B) {
	r := FlowRecord{Time: time.Now(), Kind: FlowEnded, Network: "ni/10000000-0000-4000-8000-000000000001",
		Adapter: "adapter/a0000000-0000-4000-8000-000000000001/0", Name: "web", Direction: "egress", Protocol: "udp",
		Local: "10.1.0.2:4000", Remote: "192.0.2.9:443", NAT: "198.51.100.2:61000", Rule: "udp", PacketsOut: 1, BytesOut: 29,
		Start: time.Now(), End: time.Now()}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = r.AppendLine(buf[:0])
	}
}
