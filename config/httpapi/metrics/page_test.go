package metrics

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// shop is a table with one metric of each kind.
func shop() (t *Table, sold, open, took *Metric) {
	t = &Table{}
	return t, t.Counter("edgespan_shop_sold_bytes_total", "Bytes sold.", "item"),
		t.Gauge("edgespan_shop_open", "Whether it is open."),
		t.Histogram("edgespan_shop_visit_duration_seconds", "Seconds of a visit.")
}

func text(t *testing.T, table *Table, source Source) string {
	t.Helper()
	got, err := NewPage(table, source).Text(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func TestAPageHasWhatItsSourceAdds(t *testing.T) {
	table, sold, open, took := shop()
	var h Histogram
	h.Observe(0.002)
	h.Observe(100)
	got := text(t, table, func(s *Scrape) {
		s.Count(sold, 7, "a \"b\"\n\\\xff")
		s.Count(sold, 8, strings.Repeat("é", 100))
		s.Flag(open, true)
		s.Observed(took, h)
	})
	for _, want := range []string{
		"# HELP edgespan_shop_sold_bytes_total Bytes sold.\n# TYPE edgespan_shop_sold_bytes_total counter\n",
		`edgespan_shop_sold_bytes_total{item="a \"b\"\n\\` + "\uFFFD" + `"} 7` + "\n",
		`edgespan_shop_sold_bytes_total{item="` + strings.Repeat("é", 64) + `"} 8` + "\n",
		"edgespan_shop_open 1\n",
		`edgespan_shop_visit_duration_seconds_bucket{le="0.001"} 0` + "\n",
		`edgespan_shop_visit_duration_seconds_bucket{le="0.0025"} 1` + "\n",
		`edgespan_shop_visit_duration_seconds_bucket{le="30"} 1` + "\n",
		`edgespan_shop_visit_duration_seconds_bucket{le="+Inf"} 2` + "\n",
		"edgespan_shop_visit_duration_seconds_sum 100.002\n", "edgespan_metrics_left_out_series 0\n", "go_goroutines ",
		"process_resident_memory_bytes ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if faults, err := promlint.New(strings.NewReader(got)).Lint(); err != nil || len(faults) > 0 {
		t.Errorf("promlint: %v, %v", faults, err)
	}
}

// A source that is out of hand costs no more than maxSeries.
func TestAScrapeIsBounded(t *testing.T) {
	table, sold, _, _ := shop()
	got := text(t, table, func(s *Scrape) {
		for i := range maxSeries + 3 {
			s.Count(sold, 1, strconv.Itoa(i))
		}
	})
	if n := strings.Count(got, "\nedgespan_shop_sold"); n != maxSeries ||
		!strings.Contains(got, "edgespan_metrics_left_out_series 3\n") {
		t.Errorf("%d series", n)
	}
}

// A series that two objects claim does not hide the others.
func TestASeriesThatIsThereTwiceHidesNoOther(t *testing.T) {
	table, sold, open, _ := shop()
	got := text(t, table, func(s *Scrape) {
		s.Count(sold, 1, "a")
		s.Count(sold, 2, "a")
		s.Flag(open, true)
	})
	if !strings.Contains(got, "edgespan_shop_open 1\n") {
		t.Error(got)
	}
}

func TestManyScrapersCostAsMuchAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gathered := 0
		p := newPage(func() ([]byte, error) {
			gathered++
			time.Sleep(10 * time.Millisecond)
			return []byte(strconv.Itoa(gathered)), nil
		})
		ask := func() (int, string) {
			w := httptest.NewRecorder()
			p.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			return w.Code, w.Body.String()
		}
		for range 100 { // one after the other, for 100 s
			for range 20 {
				if code, _ := ask(); code != 200 {
					t.Fatal(code)
				}
			}
			time.Sleep(time.Second)
		}
		if gathered != 100 {
			t.Errorf("2000 requests in 100 s gathered %d times", gathered)
		}
		synctest.Wait()
		if p.last.Load() != nil {
			t.Error("an answer is held without a scraper")
		}
	})
}

// Scrapers that do not read hold maxAnswers answers, and the others are told to come later.
func TestScrapersAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		p := newPage(func() ([]byte, error) { <-hang; return nil, errors.New("the host does not answer") })
		codes := make(chan int, 2*maxAnswers)
		var all sync.WaitGroup
		for range cap(codes) {
			all.Go(func() {
				w := httptest.NewRecorder()
				p.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
				if w.Header().Get("Retry-After") == "" || !bytes.Contains(w.Body.Bytes(), []byte(`"urn:edgespan:problem:busy"`)) {
					t.Errorf("%v %s", w.Header(), w.Body)
				}
				codes <- w.Code
			})
		}
		synctest.Wait()
		if n := len(codes); n != maxAnswers {
			t.Errorf("%d requests were refused at once, want %d", n, maxAnswers)
		}
		time.Sleep(2 * waitTimeout)
		if n := len(codes); n != cap(codes)-1 {
			t.Errorf("%d requests ended while one hangs", n)
		}
		close(hang)
		all.Wait()
		for range cap(codes) {
			if code := <-codes; code != http.StatusServiceUnavailable {
				t.Error(code)
			}
		}
	})
}

func TestAListenerAnswersMetricsAlone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- newPage(func() ([]byte, error) { return []byte("a 1\n"), nil }).Serve(ctx, l) }()
	for _, c := range []struct {
		method, path string
		want         int
	}{{"GET", "/metrics", 200}, {"POST", "/metrics", 405}, {"GET", "/v1/ni", 404}, {"GET", "/debug/pprof/", 404}} {
		req, err := http.NewRequestWithContext(ctx, c.method, "http://"+l.Addr().String()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, resp.StatusCode, c.want)
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
