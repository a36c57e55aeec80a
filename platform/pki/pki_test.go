package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
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
	r.opts = Options{Dir: t.TempDir(), Names: []string{"controller.test", "127.0.0.1"}, Now: func() time.Time { return r.now }, Revoked: r.revoked}
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
		SerialNumber: serial, NotBefore: start.Add(-time.Hour), NotAfter: start.Add(24 * time.Hour), BasicConstraintsValid: true,
		URIs: []*url.URL{nodeURI(nodeA)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
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
		"another URN":           {func(c *x509.Certificate) { c.URIs[0].Opaque = "edgespan:controller:" + nodeA.String() }, "is allowed"},
		"upper case":            {func(c *x509.Certificate) { c.URIs[0].Opaque = "edgespan:node:" + strings.ToUpper(nodeA.String()) }, "is allowed"},
		"the nil UUID":          {func(c *x509.Certificate) { c.URIs[0].Opaque = "edgespan:node:" + uuid.Nil.String() }, "is allowed"},
		"a query after it":      {func(c *x509.Certificate) { c.URIs[0].RawQuery = "x=1" }, "is allowed"},
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
		if _, serverErr, clientErr := handshake(t, r.ServerTLS(), r.sign(t, func(*x509.Certificate) {})); serverErr != nil || clientErr != nil {
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
	_, serverErr, _ := handshake(t, r.ServerTLS(), shows(r, &tls.Certificate{Certificate: rawOf(c.held.chain), PrivateKey: c.held.key}))
	wantErr(t, serverErr, "unknown authority")
	_, _, clientErr := handshake(t, r.ServerTLS(), tlsOf(t, c))
	wantErr(t, clientErr, "unknown authority") // and the node does not take this server
}

// A node's certificate is no server's: one node cannot play the controller to another.
func TestANodeCannotBeAServer(t *testing.T) {
	r := newRig(t)
	thief, victim := r.join(t, nodeA), r.join(t, nodeB)
	server := &tls.Config{Certificates: []tls.Certificate{{Certificate: rawOf(thief.held.chain), PrivateKey: thief.held.key}}}
	_, _, err := handshake(t, server, tlsOf(t, victim))
	wantErr(t, err, "certificate")
	_, _, err = handshake(t, server, PinnedTLS(r.Pin(), "127.0.0.1", r.opts.Now))
	wantErr(t, err, "verify server")
}

func TestRevokedIsRefusedInTheHandshakeAndOnRenewal(t *testing.T) {
	for name, entry := range map[string]func(Peer) Revocation{
		"all": func(p Peer) Revocation { return Revocation{Node: p.Node.String(), At: start, Reason: "stolen"} },
		"all but a later join": func(p Peer) Revocation {
			return Revocation{Node: p.Node.String(), At: start, Reason: "stolen", Joining: "later"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c, other := r.join(t, nodeA), r.join(t, nodeB)
			p, err := c.Peer()
			if err != nil {
				t.Fatal(err)
			}
			if err := r.revoked.Replace([]Revocation{entry(p)}); err != nil {
				t.Fatal(err)
			}
			_, serverErr, clientErr := handshake(t, r.ServerTLS(), tlsOf(t, c))
			if !errors.Is(serverErr, ErrRevoked) || clientErr == nil {
				t.Errorf("server %v, client %v", serverErr, clientErr)
			}
			wantErr(t, serverErr, "stolen")
			csr, err := c.RenewalRequest()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Renew(p, csr); !errors.Is(err, ErrRevoked) {
				t.Errorf("renewal: %v", err)
			}
			if _, serverErr, _ := handshake(t, r.ServerTLS(), tlsOf(t, other)); serverErr != nil {
				t.Errorf("another node: %v", serverErr)
			}
		})
	}
}

// TestARevocationOutlivesTheNextJoin: the key of before is dead, in the handshake and for a renewal;
// the certificates of the new join count, renewed ones too.
func TestARevocationOutlivesTheNextJoin(t *testing.T) {
	r := newRig(t)
	old := r.join(t, nodeA)
	stolen, err := old.Peer()
	if err != nil {
		t.Fatal(err)
	}
	revoke := func(joining string) {
		t.Helper()
		if err := r.revoked.Replace([]Revocation{{Node: nodeA.String(), At: start, Reason: "replaced", Joining: joining}}); err != nil {
			t.Fatal(err)
		}
	}
	revoke("")
	csr, err := old.RenewalRequest()
	if err != nil {
		t.Fatal(err)
	}
	request, err := ParseRequest(csr)
	if err != nil {
		t.Fatal(err)
	}
	request.Joining = "second"
	issued, err := r.Issue(request)
	if err != nil || issued.Joining != "second" {
		t.Fatalf("%+v, %v", issued.Peer, err)
	}
	if err := r.Admit(issued.Peer); !errors.Is(err, ErrRevoked) {
		t.Errorf("before the join is on the list: %v", err)
	}
	revoke("second")
	if _, serverErr, _ := handshake(t, r.ServerTLS(), tlsOf(t, old)); !errors.Is(serverErr, ErrRevoked) {
		t.Errorf("the old key connects: %v", serverErr)
	}
	if _, err := r.Renew(stolen, csr); !errors.Is(err, ErrRevoked) {
		t.Errorf("the old key is renewed: %v", err)
	}
	next, err := r.Renew(issued.Peer, csr)
	if err != nil || next.Joining != "second" || r.Admit(next.Peer) != nil {
		t.Errorf("renewal of the new one: %+v, %v, %v", next.Peer, err, r.Admit(next.Peer))
	}
	revoke("third")
	if err := r.Admit(next.Peer); !errors.Is(err, ErrRevoked) {
		t.Errorf("after yet another join: %v", err)
	}
}

func TestRevocationsNameEveryFaultAndKeepTheOldList(t *testing.T) {
	l := &Revocations{}
	if err := l.Replace([]Revocation{{Node: nodeA.String()}}); err != nil {
		t.Fatal(err)
	}
	err := l.Replace([]Revocation{{}, {Node: "x"}, {Node: strings.ToUpper(nodeB.String())}})
	for _, want := range []string{"revocation 0", "revocation 1", "revocation 2"} {
		wantErr(t, err, want)
	}
	if err := l.Check(Peer{Node: nodeA}); !errors.Is(err, ErrRevoked) {
		t.Errorf("the old list is gone: %v", err)
	}
	if err := (*Revocations)(nil).Check(Peer{Node: nodeA}); err != nil {
		t.Error(err)
	}
}

// A time server is ahead for a while: what is issued then counts when the clocks are right again,
// a certificate of a node, of the controller, and a CA that was made then.
func TestAClockThatWasAheadLeavesNobodyInTheDark(t *testing.T) {
	r := newRig(t)
	c := r.join(t, nodeA)
	before, err := c.Peer()
	if err != nil {
		t.Fatal(err)
	}
	r.now = start.Add(25 * 24 * time.Hour)
	csr, err := c.RenewalRequest()
	if err != nil {
		t.Fatal(err)
	}
	issued, err := r.Renew(before, csr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Install(issued.Chain, issued.Roots); err != nil {
		t.Fatal(err)
	}
	ca, err := newCA(r.now)
	if err != nil {
		t.Fatal(err)
	}
	r.now = start
	if p, err := c.Peer(); err != nil || p.Serial == before.Serial {
		t.Errorf("the next one: %+v %v", p, err)
	}
	for name, cert := range map[string]*x509.Certificate{"node": c.held.chain[0], "CA": ca.chain[0]} {
		if start.Before(cert.NotBefore) || start.After(cert.NotAfter) {
			t.Errorf("%s: counts from %v to %v only", name, cert.NotBefore, cert.NotAfter)
		}
	}
	if due := c.RenewAt(0); !due.After(start.Add(25 * 24 * time.Hour)) {
		t.Errorf("due on %v", due)
	}
}

func TestRenewal(t *testing.T) {
	r := newRig(t)
	c := r.join(t, nodeA)
	p, err := c.Peer()
	if err != nil {
		t.Fatal(err)
	}
	life := 30 * 24 * time.Hour
	if got, want := c.RenewAt(0), start.Add(life*2/3); !got.Equal(want) {
		t.Errorf("due %v, want %v: two thirds of the life", got, want)
	}
	if got, want := c.RenewAt(1).Sub(c.RenewAt(0)), life/10; got != want {
		t.Errorf("spread %v, want %v", got, want)
	}
	if !c.RenewAt(1).Before(p.NotAfter) {
		t.Error("due after its end")
	}
	r.now = c.RenewAt(0.5)
	csr, err := c.RenewalRequest()
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
	next, err := c.Peer()
	if err != nil || next.Serial == p.Serial || !next.NotAfter.After(p.NotAfter) {
		t.Errorf("%+v after %+v: %v", next, p, err)
	}
	again, err := OpenCredentials(c.dir, nodeA, c.now)
	if err != nil {
		t.Fatal(err)
	}
	if q, err := again.Peer(); err != nil || q != next {
		t.Errorf("on disk %+v, want %+v: %v", q, next, err)
	}
	if _, serverErr, clientErr := handshake(t, r.ServerTLS(), tlsOf(t, again)); serverErr != nil || clientErr != nil {
		t.Error(serverErr, clientErr)
	}
}

func TestARequestForAnotherNodeIsRefused(t *testing.T) {
	r := newRig(t)
	p, err := r.join(t, nodeA).Peer()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := r.join(t, nodeB).RenewalRequest()
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Renew(p, csr)
	wantErr(t, err, "a node speaks for itself only")
}

func TestAnEndedCertificateIsNotRenewed(t *testing.T) {
	r := newRig(t)
	c := r.join(t, nodeA)
	p, err := c.Peer()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := c.RenewalRequest()
	if err != nil {
		t.Fatal(err)
	}
	r.now = p.NotAfter.Add(time.Second)
	_, err = r.Renew(p, csr)
	wantErr(t, err, "ended on")
}

func requestOf(t *testing.T, key crypto.Signer, change func(*x509.CertificateRequest)) []byte {
	t.Helper()
	c := &x509.CertificateRequest{URIs: []*url.URL{nodeURI(nodeA)}}
	change(c)
	der, err := x509.CreateCertificateRequest(rand.Reader, c, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestRequests(t *testing.T) {
	p256, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p224, _ := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	same := func(*x509.CertificateRequest) {}
	forged := requestOf(t, p256, same)
	forged[len(forged)-1] ^= 1
	for name, test := range map[string]struct {
		der  []byte
		want string // "" for a good one
	}{
		"P-256":           {requestOf(t, p256, same), ""},
		"Ed25519":         {requestOf(t, ed, same), ""},
		"RSA":             {requestOf(t, weak, same), "a key of RSA"},
		"P-224":           {requestOf(t, p224, same), "224 bits"},
		"forged":          {forged, "read certificate request"},
		"nobody":          {requestOf(t, p256, func(c *x509.CertificateRequest) { c.URIs = nil }), "0 names"},
		"two":             {requestOf(t, p256, func(c *x509.CertificateRequest) { c.URIs = append(c.URIs, nodeURI(nodeB)) }), "2 names"},
		"a name more":     {requestOf(t, p256, func(c *x509.CertificateRequest) { c.DNSNames = []string{"x"} }), "2 names"},
		"too large":       {make([]byte, largestRequest+1), "octets"},
		"empty":           {nil, "read certificate request"},
		"octets after it": {append(requestOf(t, p256, same), 0), "read certificate request"},
	} {
		_, err := ParseRequest(test.der)
		if test.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
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
		t.Error("another key")
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
		"of an earlier key": {first.Chain, first.Roots, "another key"},
		"no certificate":    {nil, own.Roots, "required"},
		"no roots":          {own.Chain, nil, "required"},
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
	_, _, err = handshake(t, &tls.Config{Certificates: []tls.Certificate{*cert}}, PinnedTLS(r.Pin(), "127.0.0.1", r.opts.Now))
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
	for _, bad := range []string{"", "ab", hexText + "ab", "zz" + hexText[2:], "a:b" + hexText[3:], hexText[:62] + ":", "sha1:" + hexText} {
		if _, err := ParsePin(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

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
	wantErr(t, err, "the CA's certificate ended")
	_, err = Open(r.opts)
	wantErr(t, err, "ended on")
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

// An outside CA is given as files: an issuing certificate below a root, and its key in
// the form that openssl writes.
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
		if is := serverErr == nil && clientErr == nil; is != want {
			t.Errorf("%s: connects %v: %v, %v", when, is, serverErr, clientErr)
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
	if r.Pin() != old || !r.Trusts(next) {
		t.Errorf("it issues by %v", r.Pin())
	}
	renew(c)
	connects("trusted", c, true)
	connects("trusted", late, true)
	if got, err := SwitchCA(r.opts.Dir); err != nil || got != next {
		t.Fatal(got, err)
	}
	again()
	if r.Pin() != next || !r.Trusts(old) {
		t.Errorf("it issues by %v", r.Pin())
	}
	connects("switched", c, true)
	connects("switched, and it did not renew", late, false)
	renew(c)
	if _, err := DropCA(r.opts.Dir); err != nil {
		t.Fatal(err)
	}
	again()
	if r.Trusts(old) {
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
	files := Files{writePEM(t, filepath.Join(dir, "api.crt"), blockCert, made.Certificate[0]), writePEM(t, filepath.Join(dir, "api.key"), blockKey, key)}
	r := newRig(t, func(o *Options) { o.API = files })
	for name, pool := range map[string]*x509.CertPool{"fleet.company.test": poolOf(company.roots), "controller.test": poolOf(r.roots)} {
		client := &tls.Config{ServerName: name, RootCAs: pool, Time: r.opts.Now}
		if _, serverErr, clientErr := handshake(t, r.OperatorTLS(), client); serverErr != nil || clientErr != nil {
			t.Errorf("%s: %v, %v", name, serverErr, clientErr)
		}
	}
	if _, serverErr, clientErr := handshake(t, r.ServerTLS(), tlsOf(t, r.join(t, nodeA))); serverErr != nil || clientErr != nil {
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
	var told []string
	r := newRig(t, func(o *Options) {
		o.API = files
		o.APIFault = func(err error) { told = append(told, fmt.Sprint(err)) }
	})
	shows := func(when string, outside, ails bool, faults ...string) {
		t.Helper()
		for range 2 {
			cert, err := r.shown(&tls.ClientHelloInfo{ServerName: "fleet.company.test"})
			if err != nil || (cert.Leaf.VerifyHostname("fleet.company.test") == nil) != outside || r.now.After(cert.Leaf.NotAfter) {
				t.Errorf("%s: not the one that is to be shown, or one that ended: %v", when, err)
			}
		}
		if len(told) != len(faults) || len(faults) > 0 && !strings.Contains(told[0], faults[0]) || (r.APIFault() != nil) != ails {
			t.Errorf("%s: told %q, now %v", when, told, r.APIFault())
		}
		told, r.now = nil, r.now.Add(reread)
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
	if cert := r.api.at(r.now); !bytes.Equal(cert.Certificate[0], renewed.Certificate[0]) {
		t.Error("the change is not shown")
	}
	r.now = made.Leaf.NotAfter.Add(time.Second)
	shows("after its end", false, true, "ended on")
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
	out := Outside{
		Cert: writePEM(t, filepath.Join(dir, "ca.crt"), blockCert, der, top.Raw),
		Key:  writePEM(t, filepath.Join(dir, "ca.key"), "EC PRIVATE KEY", ecKey),
	}
	r := newRig(t, func(o *Options) { o.Outside = out })
	c := r.join(t, nodeA)
	if _, serverErr, clientErr := handshake(t, r.ServerTLS(), tlsOf(t, c)); serverErr != nil || clientErr != nil {
		t.Error(serverErr, clientErr)
	}
	if _, _, err := handshake(t, r.ServerTLS(), PinnedTLS(PinOf(top), "127.0.0.1", r.opts.Now)); err != nil {
		t.Errorf("pinned to the root above: %v", err)
	}

	t.Run("without its key", func(t *testing.T) {
		o := r.opts
		o.Outside.Key = ""
		_, err = Open(o)
		wantErr(t, err, "a CA without its key: required")
	})
	t.Run("with another key", func(t *testing.T) {
		other, _ := newKey()
		key, err := x509.MarshalPKCS8PrivateKey(other)
		if err != nil {
			t.Fatal(err)
		}
		o := r.opts
		o.Outside.Key = writePEM(t, filepath.Join(dir, "other.key"), blockKey, key)
		_, err = Open(o)
		wantErr(t, err, "do not belong together")
	})
}

func TestOptionsThatCannotWork(t *testing.T) {
	o := newRig(t).opts
	o.NodeLife = time.Second
	_, err := Open(o)
	wantErr(t, err, "a certificate's life of 1s")
	o.NodeLife, o.Names = 0, nil
	_, err = Open(o)
	wantErr(t, err, "no names")
}
