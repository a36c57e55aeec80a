package configdb

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"
)

// beside runs ours and theirs in turns and reports the ratio of their times.
func beside(b *testing.B, own, theirs func()) {
	b.Helper()
	var our, their time.Duration
	for b.Loop() {
		began := time.Now()
		own()
		middle := time.Now()
		theirs()
		our, their = our+middle.Sub(began), their+time.Since(middle)
	}
	b.ReportMetric(float64(our)/float64(their), "ratio")
	b.ReportMetric(float64(our.Nanoseconds())/float64(b.N)/1e3, "us-ours")
	b.ReportMetric(float64(their.Nanoseconds())/float64(b.N)/1e3, "us-theirs")
	b.ReportMetric(0, "ns/op")
}

// astute is a document of some size with the shape of a real one: dozens of top keys, some
// thousands of leaves, keys that are not in order.
func astute(size, salt int) string {
	text := `{"deployment_id":` + fmt.Sprint(salt)
	for i := 0; len(text) < size-1; i++ {
		section := ""
		for j := range 12 {
			section += fmt.Sprintf(`,"settings:storage.images_%d.value == `+
				`true":{"weight":%d,"type":"checkbox","value":%v,"label":"Ceph RBD for volumes (Cinder) `+
				`\"%d\"","ratio":1.0,"hosts":["node-%d.domain.tld","192.0.2.%d",null]}`,
				(j*7)%12, j*i, j%2 == 0, salt, i, j)
		}
		text += fmt.Sprintf(`,"section_%d":{"uid":"%d"%s}`, (i*37)%100, i, section)
	}
	return text + "}"
}

// BenchmarkParse stands beside reading the same 69 KB with encoding/json, which decodes, and compacting it, which only
// checks.
func BenchmarkParse(b *testing.B) {
	text := []byte(astute(69_000, 1))
	b.Run("unmarshal", func(b *testing.B) {
		beside(b, func() {
			if _, err := Parse(text); err != nil {
				b.Fatal(err)
			}
		}, func() {
			var v any
			if err := json.Unmarshal(text, &v); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("canonical", func(b *testing.B) {
		canonical := parse(b, string(text))
		b.SetBytes(int64(len(canonical)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Parse(canonical); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkEffective makes an effective value of 50 KB over five levels and the root, values and overrides on each, of
// documents as they lie in the store; beside it a merge of decoded maps with json.Marshal of the result (bar: 2).
func BenchmarkEffective(b *testing.B) {
	for _, c := range []struct {
		name  string
		sizes []int // of the values and overrides of the root and each level
	}{
		{"whole", []int{50_000, 500, 50_000, 500, 50_000, 500, 50_000, 500, 50_000, 500, 50_000, 500}},
		{"shared", []int{10_000, 500, 10_000, 500, 10_000, 500, 10_000, 500, 10_000, 500, 50_000, 500}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var texts []JSON
			var decoded []map[string]any
			for i, size := range c.sizes {
				text := parse(b, astute(size, i))
				var m map[string]any
				if err := json.Unmarshal(text, &m); err != nil {
					b.Fatal(err)
				}
				texts, decoded = append(texts, text), append(decoded, m)
			}
			beside(b, func() {
				layers := make([]Object, len(texts))
				for i, t := range texts {
					var err error
					if layers[i], err = ObjectOf(t); err != nil {
						b.Fatal(err)
					}
				}
				o, _ := free.Merge(layers...)
				_ = o.JSON()
			}, func() {
				out := map[string]any{}
				for _, m := range decoded {
					maps.Copy(out, m)
				}
				if _, err := json.Marshal(out); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
