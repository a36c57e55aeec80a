package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestFactsOfAController asks a controller as it is started: by name a PUT is sent to the id, answers and ETags
// outlive a restart, and the fleet's API is there beside it.
func TestFactsOfAController(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	c := program.Start(t, dir, "--facts-memory-mb", "1")
	pin := c.Pin()
	b := c.Browser(pin)
	check := func(method, path, body string, status int, want string) string {
		t.Helper()
		w := c.Ask(b, method, path, body)
		if w.Status != status || w.Text != want {
			t.Fatalf("%s %s is %+v, want %d %s", method, path, w, status, want)
		}
		return w.Tag
	}
	check("POST", "/api/v1/config/components", `{"name":"fuel","resource_definitions":[{"name":"astute"}]}`, 201,
		`{"id":1,"name":"fuel","resource_definitions":[{"id":1,"name":"astute","component_id":1,"content":null}]}`)
	check("POST", "/api/config/environments", `{"components":["fuel"],"hierarchy_levels":["nodes"]}`, 201,
		`{"id":1,"components":[1],"hierarchy_levels":["nodes"]}`)
	const values = "/api/v1/config/environments/1/nodes/n1/resources/astute/values"
	w := c.Ask(b, "PUT", values, `{"b":1.0,"a":{"x":null}}`) // the client follows the 308
	if w.Status != 204 || w.Path != strings.Replace(values, "astute", "1", 1) {
		t.Fatalf("%+v", w)
	}
	tag := check("GET", values+"?effective", "", 200, `{"a":{"x":null},"b":1.0}`)
	if w := c.Ask(b, "GET", values+"?effective", "", "If-None-Match: "+tag); w.Status != 304 || tag == "" {
		t.Errorf("with %q it is %+v", tag, w)
	}
	if w := c.Ask(b, "GET", "/api/v1/fleet/nodes", ""); w.Status != 200 || !strings.Contains(w.Text, "node-1") {
		t.Errorf("the fleet is %+v", w)
	}
	check("GET", "/readyz", "", 200, `{"status":"ok"}`)
	if w := c.Ask(b, "GET", "/api/v1/config/environments", "", "Authorization: Bearer no"); w.Status != 401 ||
		!strings.HasPrefix(w.Text, `{"msg":`) {
		t.Errorf("without a token it is %+v", w)
	}
	watch, stop := context.WithCancel(t.Context())
	defer stop()
	r, _ := http.NewRequestWithContext(watch, "GET", "https://"+c.API+"/api/v1/config/watch?since=0", nil)
	r.Header.Set("Authorization", "Bearer "+c.Token())
	stream, err := b.Do(r)
	if err != nil || stream.StatusCode != 200 {
		t.Fatal(stream, err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	for lines.Scan() && lines.Text() != "id: 3" {
	}
	if lines.Text() != "id: 3" {
		t.Errorf("the stream ended with %q, %v", lines.Text(), lines.Err())
	}
	if code := c.End(); code != 0 { // also with a stream that is open
		t.Errorf("it ended with %d", code)
	}
	if audit, err := os.ReadFile(filepath.Join(dir, "audit-admins.log")); err != nil ||
		!strings.Contains(string(audit), `"path":"/api/v1/config/components"`) {
		t.Errorf("the audit log lacks a write: %s, %v", audit, err)
	}
	c = program.Start(t, dir)
	b = c.Browser(pin)
	if again := check("GET", values+"?effective", "", 200, `{"a":{"x":null},"b":1.0}`); again != tag {
		t.Errorf("after a restart the ETag %s is %s", tag, again)
	}
}

func TestRefusesFactsFlags(t *testing.T) {
	code, _, err := program.Command(t, "--data-dir", t.TempDir(), "--facts-memory-mb", "0", "--facts-versions", "-1")
	if code != 2 || !strings.Contains(err, "--facts-memory-mb: invalid value 0") ||
		!strings.Contains(err, "--facts-versions: invalid value -1") {
		t.Errorf("%d %s", code, err)
	}
}

// BenchmarkFactsByHTTP is what a client on the same machine gets of a controller by HTTP with connections that stay,
// 16 of them: effective values of some 50 KB of 20 nodes through five levels, and 304 for the same. The client and
// the controller share the cores.
func BenchmarkFactsByHTTP(b *testing.B) {
	api := plainController(b)
	put := func(path, body string) {
		b.Helper()
		r, _ := http.NewRequestWithContext(b.Context(), http.MethodPut, "http://"+api+path, strings.NewReader(body))
		if strings.HasSuffix(path, "s") && !strings.Contains(path, "values") {
			r.Method = http.MethodPost
		}
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		defer w.Body.Close()
		if text, _ := io.ReadAll(w.Body); w.StatusCode >= 300 {
			b.Fatalf("%s: %d %s", path, w.StatusCode, text)
		}
	}
	put("/api/v1/config/components", `{"name":"fuel","resource_definitions":[{"name":"astute"}]}`)
	put("/api/v1/config/environments",
		`{"components":["fuel"],"hierarchy_levels":["release","role","group","zone","nodes"]}`)
	rng := rand.New(rand.NewPCG(1, 2))
	const nodes = 20
	var paths, tags []string
	for n := range nodes {
		place := "/api/v1/config/environments/1/"
		for _, level := range []string{"release", "role", "group", "zone", "nodes"} {
			place += fmt.Sprintf("%s/%s%d/", level, level, n)
			size := 1000
			if level == "nodes" {
				size = 48_000
			}
			put(place+"resources/1/values", document(rng, size))
		}
		paths = append(paths, place+"resources/1/values?effective")
	}
	for _, path := range paths {
		w, err := http.Get("http://" + api + path)
		if err != nil {
			b.Fatal(err)
		}
		n, _ := io.Copy(io.Discard, w.Body)
		w.Body.Close()
		if tags = append(tags, w.Header.Get("ETag")); n < 45_000 || w.StatusCode != 200 {
			b.Fatalf("%d bytes, %d", n, w.StatusCode)
		}
	}
	b.Run("unchanged", func(b *testing.B) { flood(b, api, paths, tags, 304) })
	b.Run("warm", func(b *testing.B) { flood(b, api, paths, nil, 200) })
}

// document is a JSON object of about so many bytes.
func document(rng *rand.Rand, size int) string {
	var out strings.Builder
	out.WriteString("{")
	for i := 0; out.Len() < size; i++ {
		if i > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(&out, `"key_%d_%x":{"label":"The setting number `+
			`%d","value":%d,"network":{"cidr":"10.0.%d.0/24","gateway":null}}`, i, rng.Uint32(), i, rng.IntN(1000),
			rng.IntN(256))
	}
	out.WriteString("}")
	return out.String()
}

// plainController is one that anybody may ask.
func plainController(b *testing.B) string {
	b.Helper()
	return program.Start(b, filepath.Join(b.TempDir(), "data"), "--auth", "none").API
}

// flood asks for the paths in turns over 16 connections, with the plainest client there is: what net/http's costs
// more than the server.
func flood(b *testing.B, api string, paths, tags []string, status int) {
	requests := make([]string, len(paths))
	for i, path := range paths {
		requests[i] = "GET " + path + " HTTP/1.1\r\nHost: " + api + "\r\n"
		if tags != nil {
			requests[i] += "If-None-Match: " + tags[i] + "\r\n"
		}
		requests[i] += "\r\n"
	}
	const connections = 16
	before := cpuTime(b)
	var all sync.WaitGroup
	for c := range connections {
		all.Go(func() {
			conn, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", api)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			in := bufio.NewReaderSize(conn, 64<<10)
			for n := c; n < b.N; n += connections {
				if _, err := io.WriteString(conn, requests[n%len(requests)]); err != nil {
					b.Error(err)
					return
				}
				w, err := http.ReadResponse(in, nil)
				if err != nil || w.StatusCode != status {
					b.Error(w, err)
					return
				}
				if _, err := io.Copy(io.Discard, w.Body); err != nil {
					b.Error(err)
					return
				}
				w.Body.Close()
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-us/request")
}

// cpuTime is what this process, client and controller, took of the cores: unlike a rate it says the same on a machine
// that has other work.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
