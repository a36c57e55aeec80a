package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

var (
	start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	nodeA = uuid.MustParse("1b4e28ba-2fa1-4d7b-883f-0016d3cca427")
	nodeB = uuid.MustParse("2b4e28ba-2fa1-4d7b-883f-0016d3cca427")
)

// rig is an authority on a clock that stands until a test moves it.
type rig struct {
	*Authority
	now     time.Time
	revoked *Revocations
	opts    Options
}

func newRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{now: start, revoked: &Revocations{}}
	r.opts = Options{Dir: t.TempDir(), Names: []string{"controller.test", "127.0.0.1"},
		Now: func() time.Time { return r.now }, Revoked: r.revoked}
	for _, f := range change {
		f(&r.opts)
	}
	a, err := Open(r.opts)
	if err != nil {
		t.Fatal(err)
	}
	r.Authority = a
	return r
}

// join makes credentials of a node that has joined.
func (r *rig) join(t *testing.T, node uuid.UUID) *Credentials {
	t.Helper()
	c, err := OpenCredentials(t.TempDir(), node, func() time.Time { return r.now })
	if !errors.Is(err, ErrNotJoined) {
		t.Fatalf("a new node: %v", err)
	}
	csr, err := c.JoinRequest()
	if err != nil {
		t.Fatal(err)
	}
	issued := r.issue2(t, csr)
	if err := c.Install(issued.Chain, issued.Roots); err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *rig) issue2(t *testing.T, csr []byte) Issued {
	t.Helper()
	req, err := ParseRequest(csr)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := r.Issue(req)
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

// handshake connects a client to a server and says what the server saw, and both errors. A
// client of TLS 1.3 learns of its refusal with the first octet that it reads.
func handshake(t *testing.T, server, client *tls.Config) (seen tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer c.Close()
		conn := tls.Server(c, server)
		err = conn.Handshake()
		if err == nil {
			seen = conn.ConnectionState()
			_, err = conn.Write([]byte("k"))
		}
		done <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(c, client)
	if clientErr = conn.Handshake(); clientErr == nil {
		_, clientErr = conn.Read(make([]byte, 1))
	}
	c.Close()
	return seen, <-done, clientErr
}

func tlsOf(t *testing.T, c *Credentials) *tls.Config {
	t.Helper()
	cfg, err := c.TLS("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func wantErr(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want one with %q", err, text)
	}
}

func TestANodeThatJoinedIsSeenAsItself(t *testing.T) {
	r := newRig(t)
	c := r.join(t, nodeA)
	seen, serverErr, clientErr := handshake(t, r.ServerTLS(), tlsOf(t, c))
	if serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
	p, err := PeerOf(seen)
	if err != nil || p.Node != nodeA {
		t.Errorf("peer %+v, %v", p, err)
	}
	if seen.Version != tls.VersionTLS13 {
		t.Errorf("TLS version %x", seen.Version)
	}
	if n := len(seen.PeerCertificates); n != 1 || len(c.held.chain) != 2 {
		t.Errorf("of %d certificates it sent %d, the CA's too", len(c.held.chain), n)
	}
	if want := start.Add(30 * 24 * time.Hour); !p.NotAfter.Equal(want) {
		t.Errorf("ends %v, want %v", p.NotAfter, want)
	}
}

// Only TLS 1.3 is spoken, from both ends.
func TestOlderTLSIsRefused(t *testing.T) {
	r := newRig(t)
	old := tlsOf(t, r.join(t, nodeA))
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, _, err := handshake(t, r.ServerTLS(), old); err == nil {
		t.Error("a client of TLS 1.2 came in")
	}
	server := r.ServerTLS()
	server.MinVersion, server.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, _, err := handshake(t, server, tlsOf(t, r.join(t, nodeA))); err == nil {
		t.Error("a node took a server of TLS 1.2")
	}
	if _, _, err := handshake(t, server, PinnedTLS(r.Pin(), "127.0.0.1", r.opts.Now)); err == nil {
		t.Error("a joining node took a server of TLS 1.2")
	}
}

// sign makes a certificate by hand, to break one rule at a time.
func (r *rig) sign(t *testing.T, change func(*x509.Certificate)) *tls.Config {
	t.Helper()
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	serial, err := newSerial()
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: serial, NotBefore: start.Add(-time.Hour), NotAfter: start.Add(24 * time.Hour),
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{nodeURI(nodeA)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	change(c)
	der, err := x509.CreateCertificate(rand.Reader, c, r.roots[0], key.Public(), r.key)
	if err != nil {
		t.Fatal(err)
	}
	return shows(r, &tls.Certificate{Certificate: [][]byte{der, r.roots[0].Raw}, PrivateKey: key})
}

// shows is a client that shows a certificate whatever the server asks for.
func shows(r *rig, cert *tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: poolOf(r.roots), ServerName: "127.0.0.1", Time: r.opts.Now,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil },
	}
}

func TestWrongClientCertificatesAreRefused(t *testing.T) {
	other := &url.URL{Scheme: "urn", Opaque: "edgespan:node:" + nodeB.String()}
	for name, test := range map[string]struct {
		change func(*x509.Certificate)
		want   string
	}{
		"expired":               {func(c *x509.Certificate) { c.NotAfter = start.Add(-time.Minute) }, "expired"},
		"not yet valid":         {func(c *x509.Certificate) { c.NotBefore = start.Add(time.Minute) }, "not yet valid"},
		"a server's usage":      {func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }, "incompatible key usage"},
		"no identity":           {func(c *x509.Certificate) { c.URIs = nil }, "0 names"},
		"two identities":        {func(c *x509.Certificate) { c.URIs = append(c.URIs, other) }, "2 names"},
		"a DNS name beside it":  {func(c *x509.Certificate) { c.DNSNames = []string{"controller.test"} }, "2 names"},
		"an address beside it":  {func(c *x509.Certificate) { c.IPAddresses = []net.IP{{127, 0, 0, 1}} }, "2 names"},
		"a mail name beside it": {func(c *x509.Certificate) { c.EmailAddresses = []string{"a@b.test"} }, "2 names"},
		"another URN": {func(c *x509.Certificate) { c.URIs[0].Opaque = "edgespan:controller:" + nodeA.String() },
			"must be"},
		"upper case": {func(c *x509.Certificate) {
			c.URIs[0].Opaque = "edgespan:node:" +
				strings.ToUpper(nodeA.String())
		}, "must be"},
		"the nil UUID": {func(c *x509.Certificate) { c.URIs[0].Opaque = "edgespan:node:" + uuid.Nil.String() },
			"must be"},
		"a query after it": {func(c *x509.Certificate) { c.URIs[0].RawQuery = "x=1" }, "must be"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			_, serverErr, clientErr := handshake(t, r.ServerTLS(), r.sign(t, test.change))
			wantErr(t, serverErr, test.want)
			if clientErr == nil {
				t.Error("the client noticed nothing")
			}
		})
	}
	t.Run("nothing wrong", func(t *testing.T) {
		r := newRig(t)
		if _, serverErr, clientErr := handshake(t, r.ServerTLS(), r.sign(t, func(*x509.Certificate) {})); serverErr != nil ||
			clientErr != nil {
			t.Error(serverErr, clientErr) // else the cases above prove nothing
		}
	})
}

// A name of a kind that crypto/x509 does not show (here a directory name) is an identity, too.
func TestAHiddenSecondNameIsRefused(t *testing.T) {
	r := newRig(t)
	hidden, err := hex.DecodeString("3000")
	if err != nil {
		t.Fatal(err)
	}
	uri := []byte(nodeURI(nodeA).String())
	names := append([]byte{0x86, byte(len(uri))}, uri...)
	names = append(names, append([]byte{0xa4, byte(len(hidden))}, hidden...)...)
	ext := pkix.Extension{Id: oidSAN, Critical: true, Value: append([]byte{0x30, byte(len(names))}, names...)}
	_, serverErr, _ := handshake(t, r.ServerTLS(), r.sign(t, func(c *x509.Certificate) {
		c.URIs, c.ExtraExtensions = nil, []pkix.Extension{ext}
	}))
	wantErr(t, serverErr, "2 names, 1 of them URIs")
}

func TestACertificateOfAnotherCAIsRefused(t *testing.T) {
	r, stranger := newRig(t), newRig(t)
	c := stranger.join(t, nodeA)
	_, serverErr, _ := handshake(t, r.ServerTLS(),
		shows(r, &tls.Certificate{Certificate: rawOf(c.held.chain), PrivateKey: c.held.key}))
	wantErr(t, serverErr, "unknown authority")
	_, _, clientErr := handshake(t, r.ServerTLS(), tlsOf(t, c))
	wantErr(t, clientErr, "unknown authority") // and the node does not take this server
}

// A node's certificate is no server's: one node cannot play the controller to another.
func TestANodeCannotBeAServer(t *testing.T) {
	r := newRig(t)
	thief, victim := r.join(t, nodeA), r.join(t, nodeB)
	server := &tls.Config{Certificates: []tls.Certificate{{Certificate: rawOf(thief.held.chain),
		PrivateKey: thief.held.key}}}
	_, _, err := handshake(t, server, tlsOf(t, victim))
	wantErr(t, err, "certificate")
	_, _, err = handshake(t, server, PinnedTLS(r.Pin(), "127.0.0.1", r.opts.Now))
	wantErr(t, err, "verify server")
}

// The CA is made once; its key is nobody else's to read.
func TestTheCALastsAndItsKeyIsPrivate(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.opts.Dir, "ca.pem")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	again, err := Open(r.opts)
	if err != nil || again.Pin() != r.Pin() {
		t.Fatalf("another CA at the second start: %v", err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	_, err = Open(r.opts)
	wantErr(t, err, "chmod 600")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(r.opts)
	wantErr(t, err, "no PEM block") // a lost CA is never made anew behind somebody's back
}

func TestTheNodesKeyIsPrivateAndItsOwn(t *testing.T) {
	r := newRig(t)
	c := r.join(t, nodeA)
	path := filepath.Join(c.dir, linkFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat(filepath.Join(c.dir, joinFile)); err == nil {
		t.Error("the key of the join is still there")
	}
	own, err := IdentityOf(c.dir)
	if err != nil || !strings.Contains(own.Key, "PRIVATE KEY") || !strings.HasPrefix(own.Certificate, "-----BEGIN CERTIFICATE") ||
		!strings.HasPrefix(own.CA, "-----BEGIN CERTIFICATE") || strings.Contains(own.Certificate+own.CA, "KEY") {
		t.Errorf("identity for other programs: %v", err)
	}
	if _, err := IdentityOf(t.TempDir()); !errors.Is(err, ErrNotJoined) {
		t.Errorf("identity of a node that has not joined: %v", err)
	}
	_, err = OpenCredentials(c.dir, nodeB, c.now)
	wantErr(t, err, "the certificate is for node "+nodeA.String())
}

// Before the answer came, the same key asks again: the token knows it.
func TestAJoinIsSaidAgainWithTheSameKey(t *testing.T) {
	dir := t.TempDir()
	var keys []string
	for range 2 { // two starts of a daemon
		c, err := OpenCredentials(dir, nodeA, nil)
		if !errors.Is(err, ErrNotJoined) {
			t.Fatal(err)
		}
		csr, err := c.JoinRequest()
		if err != nil {
			t.Fatal(err)
		}
		req, err := ParseRequest(csr)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, req.Key)
	}
	if keys[0] != keys[1] {
		t.Error("do not match")
	}
}

func TestInstallRefusesWhatDoesNotFit(t *testing.T) {
	r, stranger := newRig(t), newRig(t)
	c := r.join(t, nodeA)
	before, err := c.Peer()
	if err != nil {
		t.Fatal(err)
	}
	ask := func() []byte {
		csr, err := c.RenewalRequest()
		if err != nil {
			t.Fatal(err)
		}
		return csr
	}
	first := r.issue2(t, ask())
	csr := ask()
	own := r.issue2(t, csr)
	foreign := stranger.issue2(t, csr)
	for name, test := range map[string]struct {
		chain, roots [][]byte
		want         string
	}{
		"of an earlier key": {first.Chain, first.Roots, "do not match"},
		"no certificate":    {nil, own.Roots, "must have"},
		"no roots":          {own.Chain, nil, "must have"},
		"of another CA":     {foreign.Chain, own.Roots, "unknown authority"},
		"no DER":            {[][]byte{{1}}, own.Roots, "x509"},
	} {
		err := c.Install(test.chain, test.roots)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if p, err := c.Peer(); err != nil || p != before {
		t.Errorf("%+v, %v", p, err)
	}
	if err := c.Install(own.Chain, own.Roots); err != nil {
		t.Error(err)
	}
}

func TestThePinIsOfThePublicKey(t *testing.T) {
	r := newRig(t)
	if _, _, err := handshake(t, r.ServerTLS(), PinnedTLS(r.Pin(), "controller.test", r.opts.Now)); err != nil {
		t.Error(err)
	}
	wrong := r.Pin()
	wrong[0] ^= 1
	_, _, err := handshake(t, r.ServerTLS(), PinnedTLS(wrong, "controller.test", r.opts.Now))
	if !errors.Is(err, ErrPin) {
		t.Errorf("a wrong pin: %v", err)
	}
	wantErr(t, err, r.Pin().String()) // what it is, for whoever looks into it
	_, _, err = handshake(t, r.ServerTLS(), PinnedTLS(r.Pin(), "elsewhere.test", r.opts.Now))
	wantErr(t, err, "elsewhere.test")
	late := func() time.Time { return start.Add(31 * 24 * time.Hour) }
	_, _, err = handshake(t, r.ServerTLS(), PinnedTLS(r.Pin(), "controller.test", late))
	wantErr(t, err, "expired")

	// The CA's certificate is made anew with the same key: the pin holds.
	b, err := readBundle(filepath.Join(r.opts.Dir, "ca.pem"), 0o077)
	if err != nil {
		t.Fatal(err)
	}
	again := *b.chain[0]
	again.SerialNumber, _ = newSerial()
	der, err := x509.CreateCertificate(rand.Reader, &again, &again, b.key.Public(), b.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil || PinOf(cert) != r.Pin() || bytes.Equal(der, b.chain[0].Raw) {
		t.Errorf("pin %v, want %v: %v", PinOf(cert), r.Pin(), err)
	}
}

// Whoever shows the pinned CA beside a certificate of another one gets nothing.
func TestThePinnedCAMustHaveSigned(t *testing.T) {
	r, thief := newRig(t), newRig(t)
	cert, err := thief.newServer()
	if err != nil {
		t.Fatal(err)
	}
	cert.Certificate = [][]byte{cert.Certificate[0], r.roots[0].Raw}
	_, _, err = handshake(t, &tls.Config{Certificates: []tls.Certificate{*cert}},
		PinnedTLS(r.Pin(), "127.0.0.1", r.opts.Now))
	wantErr(t, err, "verify server")
}

func TestParsePin(t *testing.T) {
	hexText := strings.Repeat("ab", 32)
	colons := strings.TrimSuffix(strings.Repeat("AB:", 32), ":")
	for _, good := range []string{hexText, strings.ToUpper(hexText), "sha256:" + hexText, colons, "SHA256:" + colons} {
		if p, err := ParsePin(good); err != nil || p.String() != hexText {
			t.Errorf("%q: %v, %v", good, p, err)
		}
	}
	for _, bad := range []string{"", "ab", hexText + "ab", "zz" + hexText[2:], "a:b" + hexText[3:], hexText[:62] + ":",
		"sha1:" + hexText} {
		if _, err := ParsePin(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
