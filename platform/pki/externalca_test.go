package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The server's certificate is renewed by itself, and its key is new each time.
func TestTheServerCertificateRenewsItself(t *testing.T) {
	r := newRig(t)
	first, err := r.server.get()
	if err != nil {
		t.Fatal(err)
	}
	r.now = start.Add(19 * 24 * time.Hour)
	if same, err := r.server.get(); err != nil || same != first {
		t.Errorf("renewed early: %v", err)
	}
	r.now = start.Add(21 * 24 * time.Hour)
	next, err := r.server.get()
	if err != nil || next == first || sameKey(next.Leaf.PublicKey, first.Leaf.PublicKey) {
		t.Errorf("not renewed: %v", err)
	}
	c := r.join(t, nodeA)
	if _, serverErr, clientErr := handshake(t, r.ServerTLS(), tlsOf(t, c)); serverErr != nil || clientErr != nil {
		t.Error(serverErr, clientErr)
	}
}

func TestNoCertificateOutlivesTheCA(t *testing.T) {
	r := newRig(t)
	r.now = r.roots[0].NotAfter.Add(-24 * time.Hour)
	p, err := r.join(t, nodeA).Peer()
	if err != nil || p.NotAfter.After(r.roots[0].NotAfter) {
		t.Errorf("ends %v, the CA %v: %v", p.NotAfter, r.roots[0].NotAfter, err)
	}
	r.now = r.roots[0].NotAfter.Add(time.Second)
	_, err = r.newServer()
	wantErr(t, err, "the CA's certificate expired")
	_, err = Open(r.opts)
	wantErr(t, err, "expired on")
}

func writePEM(t *testing.T, path, kind string, ders ...[]byte) string {
	t.Helper()
	var out []byte
	for _, der := range ders {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})...)
	}
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An outside CA is given as files: an issuing certificate below a root, and its key in the form that openssl writes.
// A clock that was ahead for one handshake leaves no certificate that begins later.
func TestTheServerCertificateOfAClockThatWasAhead(t *testing.T) {
	r := newRig(t)
	r.now = start.Add(25 * 24 * time.Hour)
	if _, err := r.server.get(); err != nil {
		t.Fatal(err)
	}
	r.now = start
	got, err := r.server.get()
	if err != nil || r.now.Before(got.Leaf.NotBefore) || r.now.After(got.Leaf.NotAfter) {
		t.Errorf("it begins on %v, %v", got.Leaf.NotBefore, err)
	}
}

// The documented way to another CA cuts no node off that has renewed its certificate meanwhile.
func TestTheCAIsRotated(t *testing.T) {
	r := newRig(t)
	c, late := r.join(t, nodeA), r.join(t, nodeB)
	again := func() {
		t.Helper()
		a, err := Open(r.opts)
		if err != nil {
			t.Fatal(err)
		}
		r.Authority = a
	}
	connects := func(when string, c *Credentials, want bool) {
		t.Helper()
		_, serverErr, clientErr := handshake(t, r.ServerTLS(), tlsOf(t, c))
		if ok := serverErr == nil && clientErr == nil; ok != want {
			t.Errorf("%s: connects %v: %v, %v", when, ok, serverErr, clientErr)
		}
	}
	renew := func(c *Credentials) {
		t.Helper()
		csr, err := c.RenewalRequest()
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Peer()
		if err != nil {
			t.Fatal(err)
		}
		issued, err := r.Renew(p, csr)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Install(issued.Chain, issued.Roots); err != nil {
			t.Fatal(err)
		}
	}
	old := r.Pin()
	if _, err := SwitchCA(r.opts.Dir); err == nil {
		t.Error("it switches to a CA that is not there")
	}
	next, err := NextCA(r.opts.Dir, r.now)
	if twice, err2 := NextCA(r.opts.Dir, r.now); err != nil || err2 != nil || twice != next || next == old {
		t.Fatalf("%v, then %v: %v, %v", next, twice, err, err2)
	}
	if _, err := DropCA(r.opts.Dir); err == nil {
		t.Error("it drops the next CA")
	}
	again()
	if r.Pin() != old || !r.HasRoot(next) {
		t.Errorf("it issues by %v", r.Pin())
	}
	renew(c)
	connects("trusted", c, true)
	connects("trusted", late, true)
	if got, err := SwitchCA(r.opts.Dir); err != nil || got != next {
		t.Fatal(got, err)
	}
	again()
	if r.Pin() != next || !r.HasRoot(old) {
		t.Errorf("it issues by %v", r.Pin())
	}
	connects("switched", c, true)
	connects("switched, and it did not renew", late, false)
	renew(c)
	if _, err := DropCA(r.opts.Dir); err != nil {
		t.Fatal(err)
	}
	again()
	if r.HasRoot(old) {
		t.Error("the old CA is trusted")
	}
	connects("dropped", c, true)
}

// Operators of the company's name get the company's certificate; nodes, and those who pin ours, ours.
func TestAnOutsideCertificateOfTheAPI(t *testing.T) {
	company := newRig(t, func(o *Options) { o.Names = []string{"fleet.company.test"} })
	made, err := company.newServer()
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := Files{writePEM(t, filepath.Join(dir, "api.crt"), blockCert, made.Certificate[0]),
		writePEM(t, filepath.Join(dir, "api.key"), blockKey, key)}
	r := newRig(t, func(o *Options) { o.API = files })
	for name, pool := range map[string]*x509.CertPool{"fleet.company.test": poolOf(company.roots),
		"controller.test": poolOf(r.roots)} {
		client := &tls.Config{ServerName: name, RootCAs: pool, Time: r.opts.Now}
		if _, serverErr, clientErr := handshake(t, r.OperatorTLS(), client); serverErr != nil || clientErr != nil {
			t.Errorf("%s: %v, %v", name, serverErr, clientErr)
		}
	}
	if _, serverErr, clientErr := handshake(t, r.ServerTLS(), tlsOf(t, r.join(t, nodeA))); serverErr != nil ||
		clientErr != nil {
		t.Errorf("a node: %v, %v", serverErr, clientErr)
	}
}

// An outside certificate that is not there, can't be read or has ended keeps no controller down: ours is
// shown in its place, that is told once, and it comes back by itself.
func TestAnOutsideCertificateThatCanNotBeShown(t *testing.T) {
	company := newRig(t, func(o *Options) { o.Names = []string{"fleet.company.test"} })
	made, err := company.newServer()
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := Files{filepath.Join(dir, "api.crt"), writePEM(t, filepath.Join(dir, "api.key"), blockKey, key)}
	var reported []string
	r := newRig(t, func(o *Options) {
		o.API = files
		o.APIFault = func(err error) { reported = append(reported, fmt.Sprint(err)) }
	})
	shows := func(when string, external, ails bool, faults ...string) {
		t.Helper()
		for range 2 {
			cert, err := r.certificateFor(&tls.ClientHelloInfo{ServerName: "fleet.company.test"})
			if err != nil || (cert.Leaf.VerifyHostname("fleet.company.test") == nil) != external ||
				r.now.After(cert.Leaf.NotAfter) {
				t.Errorf("%s: not the one that is to be shown, or one that ended: %v", when, err)
			}
		}
		if len(reported) != len(faults) || len(faults) > 0 && !strings.Contains(reported[0], faults[0]) ||
			(r.APIFault() != nil) != ails {
			t.Errorf("%s: told %q, now %v", when, reported, r.APIFault())
		}
		reported, r.now = nil, r.now.Add(reread)
	}
	shows("at the start", false, true, "api.crt")
	writePEM(t, files.Cert, blockCert, made.Certificate[0])
	shows("once it is there", true, false, "<nil>")
	if err := os.WriteFile(files.Cert, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(files.Cert, r.now, r.now); err != nil {
		t.Fatal(err)
	}
	shows("the last good one", true, true, "api.crt")
	renewed, err := company.newServer()
	if err != nil {
		t.Fatal(err)
	}
	change := func(path, kind string, der []byte) {
		t.Helper()
		writePEM(t, path, kind, der)
		if err := os.Chtimes(path, r.now, r.now); err != nil {
			t.Fatal(err)
		}
	}
	change(files.Cert, blockCert, renewed.Certificate[0])
	shows("half of a change", true, true)
	if key, err = x509.MarshalPKCS8PrivateKey(renewed.PrivateKey); err != nil {
		t.Fatal(err)
	}
	change(files.Key, blockKey, key)
	shows("the whole change", true, false, "<nil>")
	if cert := r.api.certificateAt(r.now); !bytes.Equal(cert.Certificate[0], renewed.Certificate[0]) {
		t.Error("the change is not shown")
	}
	r.now = made.Leaf.NotAfter.Add(time.Second)
	shows("after its end", false, true, "expired on")
}

func TestAnOutsideCA(t *testing.T) {
	root, err := newCA(start)
	if err != nil {
		t.Fatal(err)
	}
	root.chain[0].MaxPathLen, root.chain[0].MaxPathLenZero = -1, false
	der, err := x509.CreateCertificate(rand.Reader, root.chain[0], root.chain[0], root.key.Public(), root.key)
	if err != nil {
		t.Fatal(err)
	}
	top, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	middle, err := newCA(start)
	if err != nil {
		t.Fatal(err)
	}
	if der, err = x509.CreateCertificate(rand.Reader, middle.chain[0], top, middle.key.Public(), root.key); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ecKey, err := x509.MarshalECPrivateKey(middle.key.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	out := ExternalCA{
		Cert: writePEM(t, filepath.Join(dir, "ca.crt"), blockCert, der, top.Raw),
		Key:  writePEM(t, filepath.Join(dir, "ca.key"), "EC PRIVATE KEY", ecKey),
	}
	r := newRig(t, func(o *Options) { o.External = out })
	c := r.join(t, nodeA)
	seen, serverErr, clientErr := handshake(t, r.ServerTLS(), tlsOf(t, c))
	if serverErr != nil || clientErr != nil || len(seen.PeerCertificates) != 2 {
		t.Error(serverErr, clientErr, len(seen.PeerCertificates)) // the CA below the root is sent
	}
	if _, _, err := handshake(t, r.ServerTLS(), PinnedTLS(PinOf(top), "127.0.0.1", r.opts.Now)); err != nil {
		t.Errorf("pinned to the root above: %v", err)
	}

	t.Run("without its key", func(t *testing.T) {
		o := r.opts
		o.External.Key = ""
		_, err = Open(o)
		wantErr(t, err, "CA key: required")
	})
	t.Run("with another key", func(t *testing.T) {
		other, _ := newKey()
		key, err := x509.MarshalPKCS8PrivateKey(other)
		if err != nil {
			t.Fatal(err)
		}
		o := r.opts
		o.External.Key = writePEM(t, filepath.Join(dir, "other.key"), blockKey, key)
		_, err = Open(o)
		wantErr(t, err, "do not match")
	})
}

func TestOptionsThatCannotWork(t *testing.T) {
	o := newRig(t).opts
	o.NodeLife = time.Second
	_, err := Open(o)
	wantErr(t, err, "certificate validity 1s")
	o.NodeLife, o.Names = 0, nil
	_, err = Open(o)
	wantErr(t, err, "no names")
}
