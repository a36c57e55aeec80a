package clitest

import (
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"edgespan/platform/pki"
)

// File writes text to a temporary file and returns its path.
func File(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// ServeTLS serves h over TLS, as a controller does, and returns the URL.
func ServeTLS(t *testing.T, authority *pki.Authority, h http.Handler) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		Handler: h, TLSConfig: authority.OperatorTLS(), ReadHeaderTimeout: time.Minute,
		ErrorLog: log.New(io.Discard, "", 0), // it would log each client that disconnects
	}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = s.Close(); <-ended })
	return l.Addr().String()
}

// SecretFile writes a one-line file as a secret and returns its path.
func SecretFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
