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

// File is a file with this text.
func File(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// ServeTLS serves as a controller does, and says where.
func ServeTLS(t *testing.T, authority *pki.Authority, h http.Handler) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		Handler: h, TLSConfig: authority.OperatorTLS(), ReadHeaderTimeout: time.Minute,
		ErrorLog: log.New(io.Discard, "", 0), // it would tell of each client that hangs up
	}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = s.Close(); <-ended })
	return l.Addr().String()
}

// SecretFile is a file with this one line.
func SecretFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
