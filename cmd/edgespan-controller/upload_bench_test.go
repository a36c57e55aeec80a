package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkUploads has 32 nodes upload values of 2 KB that change each time. What a slow disk
// makes of it is seen where strace delays each sync (docs/benchmarks.md).
func BenchmarkUploads(b *testing.B) {
	api := plainController(b)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	send := func(method, path, body string) {
		r, _ := http.NewRequestWithContext(b.Context(), method, "http://"+api+"/api/v1/config/"+path, strings.NewReader(body))
		w, err := client.Do(r)
		if err != nil {
			b.Error(err)
			return
		}
		defer w.Body.Close()
		if text, _ := io.ReadAll(w.Body); w.StatusCode >= 300 {
			b.Errorf("%s: %d %s", path, w.StatusCode, text)
		}
	}
	send(http.MethodPost, "components", `{"name":"facter","resource_definitions":[{"name":"facts"}]}`)
	send(http.MethodPost, "environments", `{"components":["facter"],"hierarchy_levels":["nodes"]}`)
	const nodes, uploads = 32, 1600
	filling := strings.Repeat("x", 2000)
	var round atomic.Int64
	for b.Loop() {
		var all sync.WaitGroup
		begun := time.Now()
		for n := range nodes {
			all.Go(func() {
				for range uploads / nodes {
					send(http.MethodPut, fmt.Sprintf("environments/1/nodes/node-%d/resources/1/values", n), fmt.Sprintf(`{"n":%d,"text":%q}`, round.Add(1), filling))
				}
			})
		}
		all.Wait()
		b.ReportMetric(uploads/time.Since(begun).Seconds(), "uploads/s")
	}
}
