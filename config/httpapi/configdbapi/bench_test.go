package configdbapi

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"testing"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// still is a backend whose data does not change.
type still struct {
	Backend
	answer model.Answer
}

func (s still) Answer(_ context.Context, _ model.Query, known []string) (model.Answer, error) {
	if len(known) == 1 && known[0] == s.answer.ETag {
		return model.Answer{ETag: s.answer.ETag, Version: s.answer.Version, Revision: s.answer.Revision}, nil
	}
	return s.answer, nil
}

// thin is a ResponseWriter that discards everything.
type thin struct {
	h      http.Header
	status int
}

func (t *thin) Header() http.Header         { return t.h }
func (t *thin) Write(p []byte) (int, error) { return len(p), nil }
func (t *thin) WriteHeader(status int)      { t.status = status }

func benchmarkRead(b *testing.B, status int, header http.Header) {
	body := make([]byte, 50<<10)
	for i := range body {
		body[i] = byte('a' + i%7)
	}
	limits := DefaultLimits
	limits.Rate = 0
	h := Handler(still{answer: model.Answer{Body: body, ETag: `"0123456789abcdef"`, Version: 3, Revision: 7}}, door{},
		rest.WithLimits(limits))
	r := httptest.NewRequest("GET",
		"/api/v1/config/environments/1/release/x/role/compute/nodes/node-1.domain.tld/resources/override/node/values?effective", nil)
	r.Header = header
	r.Header.Set("X-Auth-Token", "viewer")
	b.ReportAllocs()
	for b.Loop() {
		w := &thin{h: http.Header{}}
		if h.ServeHTTP(w, r); w.status != status {
			b.Fatal(w.status)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
}

// BenchmarkUnchanged: the requirement over HTTP is 20,000 a second on two cores.
func BenchmarkUnchanged(b *testing.B) {
	benchmarkRead(b, 304, http.Header{"If-None-Match": {`"0123456789abcdef"`}})
}

func BenchmarkWarm(b *testing.B) { benchmarkRead(b, 200, http.Header{}) }

func BenchmarkWarmZipped(b *testing.B) {
	benchmarkRead(b, 200, http.Header{"Accept-Encoding": {"gzip"}})
}

// BenchmarkUnchangedOverHTTP uses persistent connections from as many clients as there are processors; the clients take
// part of the processors' time.
func BenchmarkUnchangedOverHTTP(b *testing.B) {
	limits := DefaultLimits
	limits.Rate = 0
	s := httptest.NewServer(Handler(still{answer: anAnswer}, door{}, rest.WithLimits(limits)))
	defer s.Close()
	question := []byte("GET /api/v1/config/environments/1/release/x/role/compute/nodes/node-1.domain.tld/resources/override/node/values?effective HTTP/1.1\r\n" +
		"Host: controller\r\nX-Auth-Token: viewer\r\nIf-None-Match: \"e1\"\r\n\r\n")
	b.SetParallelism(4)
	b.RunParallel(func(p *testing.PB) {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			b.Error(err)
			return
		}
		defer func() { _ = c.Close() }() // only the benchmark's
		answers := textproto.NewReader(bufio.NewReader(c))
		for p.Next() {
			if _, err := c.Write(question); err != nil {
				b.Error(err)
				return
			}
			line, err := answers.ReadLine()
			if err != nil || line != "HTTP/1.1 304 Not Modified" {
				b.Error(line, err)
				return
			}
			for line != "" && err == nil {
				line, err = answers.ReadLine()
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
}
