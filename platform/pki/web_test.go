package pki

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// What verifies and what does not is tested with the probes of uplinks (integration/netns).
func TestAHandshakeEndsWithItsConnection(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	go func() { _, _ = io.Copy(io.Discard, server) }()
	if err := client.SetDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := WebHandshake(client, "www.example.org")
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with a silent server: %v", err)
	}
	client, server = net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, server) }()
	go func() {
		_, _ = io.WriteString(server, "HTTP/1.1 400 Bad Request\r\n\r\n")
		_ = server.Close()
	}()
	if err := client.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := WebHandshake(client, "www.example.org"); err == nil ||
		err.Error() != "no TLS handshake with www.example.org" {
		t.Errorf("with a server without TLS: %v", err)
	}
}
