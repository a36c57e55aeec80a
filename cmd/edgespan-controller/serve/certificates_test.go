package serve

import (
	"crypto/tls"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// The original's clients speak TLS 1.2: where a flag says so they are served, nodes never.
func TestTheAPISpeaksOlderTLSWhereItMay(t *testing.T) {
	for _, flags := range [][]string{nil, {"--api-tls12"}} {
		c := program.Start(t, t.TempDir(), flags...)
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
		c.End()
	}
}

// A controller whose --api-cert is gone starts, serves with its own certificate and says so.
func TestAControllerWithoutItsOutsideCertificateServes(t *testing.T) {
	dir := t.TempDir()
	c := program.Start(t, dir, "--api-cert", filepath.Join(dir, "gone.crt"), "--api-key", filepath.Join(dir, "gone.key"))
	if !strings.Contains(c.Err.String(), "--api-cert cannot be read") ||
		!strings.Contains(c.Err.String(), "gone.crt") {
		t.Errorf("it says nothing of it: %s", c.Err)
	}
	reported := c.Ask(c.Browser(c.Pin()), http.MethodGet, "/readyz", "")
	if reported.Status != http.StatusOK || !strings.Contains(reported.Text, `"warnings":["--api-cert: `) ||
		strings.Contains(reported.Text, dir) {
		t.Errorf("%+v", reported)
	}
}
