package nodeconf

import (
	"fmt"
	"strings"
	"testing"
)

// thousandRules is a JSON document with one adapter and its rules.
func thousandRules() []byte {
	var b strings.Builder
	b.WriteString(`{"ports":{"wan":{"ifName":"eth0","uplink":true}},"networkInstances":{"10000000-0000-4000-8000-000000000001":` +
		`{"type":"local","port":"wan","ipv4":{"subnet":"10.1.0.0/24"}}},"appNetworks":{"a0000000-0000-4000-8000-000000000000":` +
		`{"adapters":{"0":{"networkInstance":"10000000-0000-4000-8000-000000000001","attach":{"kind":"veth","netns":"app"},"acl":{`)
	for i := range 1000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"r%04d":{"direction":"egress","match":{"ip":"198.51.%d.%d/32","port":443,"protocol":"tcp"},"order":%d}`, i, i/250, i%250+1, i)
	}
	b.WriteString(`}}}}}}`)
	return []byte(b.String())
}

func BenchmarkParseThousandRules(b *testing.B) {
	doc := thousandRules()
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Read(doc); err != nil {
			b.Fatal(err)
		}
	}
}
