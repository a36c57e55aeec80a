package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"
)

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
		if err := r.revoked.Replace([]Revocation{{Node: nodeA.String(), At: start, Reason: "replaced",
			Joining: joining}}); err != nil {
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
	wantErr(t, err, "a node can only act for itself")
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
	wantErr(t, err, "expired on")
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
		"P-256":   {requestOf(t, p256, same), ""},
		"Ed25519": {requestOf(t, ed, same), ""},
		"RSA":     {requestOf(t, weak, same), "RSA key"},
		"P-224":   {requestOf(t, p224, same), "224 bits"},
		"forged":  {forged, "read certificate request"},
		"nobody":  {requestOf(t, p256, func(c *x509.CertificateRequest) { c.URIs = nil }), "0 names"},
		"two": {requestOf(t, p256, func(c *x509.CertificateRequest) { c.URIs = append(c.URIs, nodeURI(nodeB)) }),
			"2 names"},
		"a name more":     {requestOf(t, p256, func(c *x509.CertificateRequest) { c.DNSNames = []string{"x"} }), "2 names"},
		"too large":       {make([]byte, largestRequest+1), "bytes"},
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
