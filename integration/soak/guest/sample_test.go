package guest

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"
)

func TestTheKernelSaysWhatADaemonTakes(t *testing.T) {
	var m Measured
	m.read("Name:\tedgespan\nVmPeak:\t 1240000 kB\nVmRSS:\t   38912 kB\nRssAnon:\t   24576 kB\nThreads:\t11\n")
	if m.RSS != 38 || m.Anonymous != 24 || m.Threads != 11 {
		t.Errorf("%+v", m)
	}
}

func TestADaemonIsAskedForItsGoroutines(t *testing.T) {
	for text, want := range map[string]float64{
		"version 0.3 of today, 42 goroutines, heap 7 bytes\n\ngoroutine 1\n": 42, "busy\n": 0, "": 0,
	} {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		var asked string
		s := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			asked = req.URL.Path
			_, _ = w.Write([]byte(text))
		})}
		go s.Serve(l)
		got, err := goroutines(socket)
		if got != want || (err == nil) != (want > 0) || asked != "/v1/debug/goroutines" {
			t.Errorf("%q: %v, %v, asked for %s", text, got, err, asked)
		}
		_ = s.Close()
	}
	if _, err := goroutines(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no daemon has goroutines")
	}
}
