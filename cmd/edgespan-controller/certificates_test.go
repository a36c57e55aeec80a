package main

import (
	"crypto/tls"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/term"
	"edgespan/platform/pki"
)

// The original's clients speak TLS 1.2: where a flag says so they are served, nodes never.
func TestTheAPISpeaksOlderTLSWhereItMay(t *testing.T) {
	for _, flags := range [][]string{nil, {"--api-tls12"}} {
		c := started(t, t.TempDir(), flags...)
		for address, want := range map[string]bool{c.API: flags != nil, c.Nodes: false} {
			// which protocol is all that is asked
			conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
			if err == nil {
				conn.Close()
			}
			if (err == nil) != want {
				t.Errorf("%v: %s: %v", flags, address, err)
			}
		}
		c.end()
	}
}

// The CA of a fleet is another one after the three steps, and a controller starts after each.
func TestTheCAOfAFleetIsRotated(t *testing.T) {
	dir := t.TempDir()
	c := started(t, dir, "--node-certificate-days", "400")
	line := c.err.line(t, "CA sha256:", c.ended)
	old := strings.TrimSpace(strings.TrimPrefix(line, "CA sha256:"))
	if code, _, said := command(t, "ca", "next", "--data-dir", dir); code != term.ExitConflict {
		t.Errorf("beside a controller: %d: %s", code, said)
	}
	c.end()
	if code, _, said := command(t, "ca", "switch", "--data-dir", dir); code == term.ExitOK {
		t.Errorf("it switches to nothing: %s", said)
	}
	for _, step := range []string{"next", "switch", "drop"} {
		code, _, said := command(t, "ca", step, "--data-dir", dir)
		if code != term.ExitOK || strings.Contains(said, old) {
			t.Fatalf("%s: %d: %s", step, code, said)
		}
		c := started(t, dir)
		c.end()
		a, err := pki.Open(pki.Options{Dir: dir, Names: []string{"x"}, NodeLife: time.Hour, ServerLife: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		pin, err := pki.ParsePin(old)
		if err != nil {
			t.Fatal(err)
		}
		if a.Trusts(pin) != (step != "drop") || (a.Pin() == pin) != (step == "next") {
			t.Errorf("%s: it issues by %s, and trusts the old one: %v", step, a.Pin(), a.Trusts(pin))
		}
	}
}

// A controller whose --api-cert is gone starts, serves with its own certificate and says so.
func TestAControllerWithoutItsOutsideCertificateServes(t *testing.T) {
	dir := t.TempDir()
	c := started(t, dir, "--api-cert", filepath.Join(dir, "gone.crt"), "--api-key", filepath.Join(dir, "gone.key"))
	if !strings.Contains(c.err.String(), "--api-cert is not as its files say") ||
		!strings.Contains(c.err.String(), "gone.crt") {
		t.Errorf("it says nothing of it: %s", c.err)
	}
	told := c.asks(c.browser(c.pin()), http.MethodGet, "/readyz", "")
	if told.status != http.StatusOK || !strings.Contains(told.text, `"warnings":["--api-cert: `) ||
		strings.Contains(told.text, dir) {
		t.Errorf("%+v", told)
	}
}
