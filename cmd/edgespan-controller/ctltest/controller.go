package ctltest

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/pki"
)

// Controller is a controller in this process.
type Controller struct {
	t          testing.TB
	Dir        string
	Out, Err   *Output
	HUP        chan os.Signal
	Ended      chan struct{}
	Code       int    // set once it has ended
	API, Nodes string // addresses
	stop       context.CancelFunc
}

// End ends the controller as SIGTERM does, and returns its exit code.
func (c *Controller) End() int {
	c.stop()
	select {
	case <-c.Ended:
	case <-time.After(Timeout):
		c.t.Fatalf("it did not end:\n%s", c.Err)
	}
	return c.Code
}

// Token returns the admin token.
func (c *Controller) Token() string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.Dir, "admin.token"))
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// Pin returns the pin that the first start printed.
func (c *Controller) Pin() string {
	c.t.Helper()
	_, pin, found := strings.Cut(c.Err.Line(c.t, "CA sha256:", c.Ended), "CA sha256:")
	if !found {
		c.t.Fatalf("no pin in\n%s", c.Err)
	}
	return strings.TrimSpace(pin)
}

// Client returns a client that authenticates with a token and checks the controller's CA by the pin.
func (c *Controller) Client(pin, token string) *fleetapi.Client {
	c.t.Helper()
	p, err := pki.ParsePin(pin)
	if err != nil {
		c.t.Fatal(err)
	}
	tr := &http.Transport{TLSClientConfig: pki.PinnedTLS(p, "127.0.0.1", time.Now)}
	client, err := fleetapi.NewClient(fleetapi.Options{URL: "https://" + c.API, Token: token, Transport: tr})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	return client
}

// Reported is the response to a request.
type Reported struct {
	Status          int
	Path, Tag, Text string // of the final request
	Location        string
}

// Ask sends one HTTPS request to ConfigDB with the admin token; headers are NAME: VALUE.
func (c *Controller) Ask(client *http.Client, method, path, body string, headers ...string) Reported {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, "https://"+c.API+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.Token())
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w, err := client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return Reported{w.StatusCode, w.Request.URL.Path, w.Header.Get("ETag"), strings.TrimSpace(string(text)),
		w.Header.Get("Location")}
}

// Browser returns an HTTP client that checks the controller's CA by the pin.
func (c *Controller) Browser(pin string) *http.Client {
	c.t.Helper()
	p, err := pki.ParsePin(pin)
	if err != nil {
		c.t.Fatal(err)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: pki.PinnedTLS(p, "127.0.0.1", time.Now)}}
}

// Put writes a file to a folder.
func Put(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
