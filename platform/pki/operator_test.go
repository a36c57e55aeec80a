package pki

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shake does a handshake over a pipe and returns both errors.
func shake(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() {
		defer a.Close()
		done <- tls.Server(a, server).HandshakeContext(t.Context())
	}()
	clientErr = tls.Client(b, client).HandshakeContext(t.Context())
	b.Close()
	return <-done, clientErr
}

func TestOperatorsKnowTheServerByItsPin(t *testing.T) {
	r := newRig(t)
	now := func() time.Time { return r.now }
	if s, c := shake(t, r.OperatorTLS(), PinnedTLS(r.Pin(), "127.0.0.1", now)); s != nil || c != nil {
		t.Errorf("with the right pin: %v, %v", s, c)
	}
	other := newRig(t)
	if _, c := shake(t, r.OperatorTLS(), PinnedTLS(other.Pin(), "127.0.0.1", now)); c == nil ||
		!strings.Contains(c.Error(), ErrPin.Error()) {
		t.Errorf("with another pin: %v", c)
	}
	if _, c := shake(t, r.OperatorTLS(), PinnedTLS(r.Pin(), "elsewhere.test", now)); c == nil {
		t.Error("a name that the certificate lacks passed")
	}
	old := PinnedTLS(r.Pin(), "127.0.0.1", now)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if s, c := shake(t, r.OperatorTLS(), old); s == nil && c == nil {
		t.Error("TLS 1.2 passed")
	}
	if !r.HasRoot(r.Pin()) || r.HasRoot(other.Pin()) {
		t.Error("Trusts does not tell its own pin from another")
	}
}

func TestClientFiles(t *testing.T) {
	if c, err := (ClientFiles{}).TLS(); c != nil || err != nil {
		t.Errorf("no files: %v, %v", c, err)
	}
	r := newRig(t)
	ca := filepath.Join(r.opts.Dir, "ca.pem")
	c, err := ClientFiles{CA: ca, Cert: ca, Key: ca}.TLS()
	if err != nil || c.RootCAs == nil || len(c.Certificates) != 1 {
		t.Errorf("all files: %+v, %v", c, err)
	}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]ClientFiles{
		"no certificate":                {CA: empty},
		"only one of them given":        {Cert: ca},
		"no such file or directory":     {CA: filepath.Join(t.TempDir(), "none.pem")},
		empty + " and " + ca:            {Cert: empty, Key: ca},
		"certificate and key: only one": {Key: ca},
	} {
		if _, err := f.TLS(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%+v: %v: want %q", f, err, what)
		}
	}
}
