package serve

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"edgespan/config/httpapi/configdbapi"
)

// Who has logged in needs no place of those who have not, at either API, and none of them takes its own.
func TestWhoHasLoggedInKeepsItsConnection(t *testing.T) {
	c := program.Start(t, t.TempDir(), "--connections-per-address", "2")
	token := c.Token()
	for from, path := range map[string]string{"127.0.0.2": "/api/v1/fleet/nodes", "127.0.0.3": configdbapi.Prefixes[0] +
		"environments"} {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 20 * time.Second}
		// who may connect is all that is asked
		transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
		get := func() {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+c.API+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", path, resp.Status)
			}
		}
		get()
		var unknownNodes []io.Closer
		for i := range 2 {
			s, err := tls.DialWithDialer(dialer, "tcp", c.API, &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				t.Fatalf("%s: stranger %d: %v", path, i, err)
			}
			unknownNodes = append(unknownNodes, s)
		}
		get()
		for _, s := range unknownNodes {
			s.Close()
		}
		transport.CloseIdleConnections()
	}
}
