package pki

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// puppet is another CA with its files.
type puppet struct {
	*rig
	files OtherCA
}

func newPuppet(t *testing.T) *puppet {
	t.Helper()
	p := &puppet{rig: newRig(t)}
	p.files = OtherCA{Cert: filepath.Join(p.opts.Dir, "ca_crt.pem"), CRL: filepath.Join(p.opts.Dir, "ca_crl.pem")}
	writePEM(t, p.files.Cert, blockCert, p.roots[0].Raw)
	p.revoke(t, 1)
	return p
}

// revoke replaces the list.
func (p *puppet) revoke(t *testing.T, serials ...int64) {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: start, NextUpdate: start.Add(time.Hour)}
	for _, n := range serials {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: big.NewInt(n), RevocationTime: start})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, p.roots[0], p.key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, p.files.CRL, blockCRL, der)
}

// agent is a certificate as Puppet's CA makes it.
func (p *puppet) agent(t *testing.T, name string, serial int64, change ...func(*x509.Certificate)) *tls.Config {
	t.Helper()
	return p.sign(t, func(c *x509.Certificate) {
		c.URIs, c.Subject, c.SerialNumber = nil, pkix.Name{CommonName: name}, big.NewInt(serial)
		c.DNSNames = []string{name}
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		for _, f := range change {
			f(c)
		}
	})
}

// calls is what a server makes of a client that connects: who it is, or why it is nobody.
func calls(t *testing.T, r *rig, c *Callers, client *tls.Config) string {
	t.Helper()
	client = client.Clone()
	client.RootCAs = poolOf(r.roots)
	seen, serverErr, clientErr := handshake(t, c.TLS(), client)
	if serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
	for range 2 { // found, and known
		if _, err := c.Identify(&seen); err != nil {
			return err.Error()
		}
	}
	shown, _ := c.Identify(&seen)
	return "node " + shown.Node + ", certname " + shown.Certname
}

func newCallers(t *testing.T, r *rig, files OtherCA) (c *Callers, faults *[]string) {
	t.Helper()
	faults = new([]string)
	c, err := r.Callers(files, func(err error) { *faults = append(*faults, err.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	return c, faults
}

func TestWhoShowsACertificate(t *testing.T) {
	r, p := newRig(t), newPuppet(t)
	c, _ := newCallers(t, r, p.files)
	stranger := newPuppet(t)
	only, _ := newCallers(t, r, OtherCA{})
	ended := func(c *x509.Certificate) { c.NotAfter = start.Add(-time.Minute) }
	noClient := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	for name, call := range map[string]struct {
		callers *Callers
		client  *tls.Config
		want    string
	}{
		"a node of the fleet":     {c, tlsOf(t, r.join(t, nodeA)), "node " + nodeA.String() + ", certname "},
		"without the other CA":    {only, tlsOf(t, r.join(t, nodeB)), "node " + nodeB.String() + ", certname "},
		"nobody":                  {c, PinnedTLS(r.Pin(), "127.0.0.1", r.opts.Now), "node , certname "},
		"an agent":                {c, p.agent(t, "node-1.domain.tld", 7), "node , certname node-1.domain.tld"},
		"an agent, not asked for": {only, p.agent(t, "node-1.domain.tld", 7), "signed by an unknown CA"},
		"a revoked agent":         {c, p.agent(t, "node-1.domain.tld", 1), "certificate revoked by its CA"},
		"an ended agent": {c, p.agent(t, "n", 8, ended),
			"valid only from 2026-11-21T11:00:00Z to 2026-11-21T11:59:00Z"},
		"a server":          {c, p.agent(t, "n", 8, noClient), "or not for clients"},
		"a name of many":    {c, p.agent(t, "*.domain.tld", 8), `invalid CN "*.domain.tld"`},
		"a name with a way": {c, p.agent(t, "a/../b", 8), `invalid CN "a/../b"`},
		"no name":           {c, p.agent(t, "", 8), `invalid CN ""`},
		"of another CA":     {c, stranger.agent(t, "node-1.domain.tld", 7), "signed by an unknown CA"},
		"an ended node":     {c, r.sign(t, ended), "valid only from"},
		"a fleet's without a node": {c, r.sign(t, func(c *x509.Certificate) { c.URIs, c.Subject.CommonName = nil, "node-1" }),
			"signed by an unknown CA"},
		// The other CA must not be able to name the fleet's nodes.
		"a node by the other CA": {c,
			p.agent(t, "evil", 9, func(c *x509.Certificate) { c.URIs, c.DNSNames = []*url.URL{nodeURI(nodeA)}, nil }),
			"node , certname evil"},
	} {
		if got := calls(t, r, call.callers, call.client); got != call.want &&
			(call.want[:4] == "node" || !strings.Contains(got, call.want)) {
			t.Errorf("%s: %s, want %s", name, got, call.want)
		}
	}
}

func TestARevokedNodeIsNobodyOnAnOpenConnection(t *testing.T) {
	r := newRig(t)
	c, _ := newCallers(t, r, OtherCA{})
	client := tlsOf(t, r.join(t, nodeA))
	seen, serverErr, clientErr := handshake(t, c.TLS(), client)
	if serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
	if shown, err := c.Identify(&seen); err != nil || shown.Node != nodeA.String() {
		t.Fatal(shown, err)
	}
	if err := r.revoked.Replace([]Revocation{{Node: nodeA.String(), At: start, Reason: "stolen"}}); err != nil {
		t.Fatal(err)
	}
	if shown, err := c.Identify(&seen); err == nil || shown != (Shown{}) || !strings.Contains(err.Error(), "stolen") {
		t.Errorf("revoked: %+v %v", shown, err)
	}
	if err := r.revoked.Replace(nil); err != nil {
		t.Fatal(err)
	}
	r.now = r.now.Add(31 * 24 * time.Hour)
	if shown, err := c.Identify(&seen); err == nil || shown != (Shown{}) {
		t.Errorf("ended: %+v %v", shown, err)
	}
}

func TestTheOtherCAsFilesAreFollowed(t *testing.T) {
	r, p := newRig(t), newPuppet(t)
	c, faults := newCallers(t, r, p.files)
	agent := p.agent(t, "node-1", 7)
	check := func(state, want string) {
		t.Helper()
		if got := calls(t, r, c, agent); !strings.Contains(got, want) {
			t.Errorf("%s: %s", state, got)
		}
	}
	changed := func() { r.now = r.now.Add(reread) }
	check("at first", "certname node-1")
	p.revoke(t, 7, 8, 9)
	check("not looked at yet", "certname node-1")
	changed()
	check("revoked", "revoked by its CA")
	p.revoke(t)
	if err := os.WriteFile(p.files.Cert, []byte("nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	changed()
	check("a file that can't be read", "revoked by its CA")
	changed()
	check("and is told once", "revoked by its CA")
	if len(*faults) != 1 || !strings.Contains((*faults)[0], p.files.Cert) {
		t.Errorf("told %q", *faults)
	}
	writePEM(t, p.files.Cert, blockCert, p.roots[0].Raw)
	key := p.key
	p.key, _ = newKey()
	p.revoke(t) // by somebody who has the CA's name, and not its key
	if err := c.Reload(); err == nil || !strings.Contains(err.Error(), "not signed by a certificate of the CA") {
		t.Errorf("a list that is forged: %v", err)
	}
	p.key = key
	p.revoke(t)
	other := newPuppet(t)
	writePEM(t, p.files.Cert, blockCert, other.roots[0].Raw)
	if err := c.Reload(); err == nil || !strings.Contains(err.Error(), "not signed by a certificate of the CA") {
		t.Errorf("a list of another CA: %v", err)
	}
	writePEM(t, p.files.Cert, blockCert, other.roots[0].Raw, p.roots[0].Raw)
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	check("mended", "certname node-1")
}

func TestFilesOfAnotherCAThatCanNotWork(t *testing.T) {
	r, p := newRig(t), newPuppet(t)
	leaf := p.agent(t, "x", 3)
	cert, _ := leaf.GetClientCertificate(nil)
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, pem.EncodeToMemory(&pem.Block{Type: blockCRL, Bytes: []byte("x")}),
		0o600); err != nil {
		t.Fatal(err)
	}
	for want, files := range map[string]OtherCA{
		"no such file": {Cert: filepath.Join(dir, "none")},
		"not a CA certificate": {Cert: writePEM(t, filepath.Join(dir, "leaf"), blockCert,
			cert.Certificate[0])},
		"no such file or":                         {Cert: p.files.Cert, CRL: filepath.Join(dir, "none")},
		"PEM block 1: unexpected \"CERTIFICATE\"": {Cert: p.files.Cert, CRL: p.files.Cert},
		"PEM block 1: ":                           {Cert: p.files.Cert, CRL: garbage},
	} {
		if _, err := r.Callers(files, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func BenchmarkCallers(b *testing.B) {
	a, err := Open(Options{Dir: b.TempDir(), Names: []string{"127.0.0.1"}})
	if err != nil {
		b.Fatal(err)
	}
	key, _ := newKey()
	leaf, err := a.issue(&x509.Certificate{URIs: []*url.URL{nodeURI(nodeA)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, key.Public(), time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	c, _ := a.Callers(OtherCA{}, nil)
	state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
	for b.Loop() {
		if shown, err := c.Identify(state); shown.Node == "" {
			b.Fatal(err)
		}
	}
}

// A list that has ended counts on, and that is known.
func TestAListThatEndedCountsOnAndIsTold(t *testing.T) {
	p, r := newPuppet(t), newRig(t)
	p.revoke(t, 7)
	c, err := r.Callers(p.files, nil)
	if err != nil {
		t.Fatal(err)
	}
	agent := p.agent(t, "node-7", 7)
	for _, ended := range []bool{false, true} {
		if err := c.Stale(); (err != nil) != ended || ended && !strings.Contains(err.Error(), p.files.CRL) {
			t.Errorf("ended %t: %v", ended, err)
		}
		if got := calls(t, r, c, agent); !strings.Contains(got, "revoked") {
			t.Errorf("ended %t: %s", ended, got)
		}
		r.now = c.otherNow().until.Add(time.Second)
	}
	if plain, err := r.Callers(OtherCA{}, nil); err != nil || plain.Stale() != nil {
		t.Errorf("without a list: %v, %v", plain.Stale(), err)
	}
}

// What a client shows stays in memory for as long as its connection: much is refused in the handshake.
func TestALargeChainEndsTheHandshake(t *testing.T) {
	p, r := newPuppet(t), newRig(t)
	c, _ := newCallers(t, r, p.files)
	for name, agent := range map[string]*tls.Config{
		"many": p.agent(t, "node-1", 9),
		"large": p.agent(t, "node-1", 9, func(c *x509.Certificate) {
			c.DNSNames = slices.Repeat([]string{strings.Repeat("x", 60) + ".example"}, 300)
		}),
		"few": p.agent(t, "node-1", 9),
	} {
		cert, err := agent.GetClientCertificate(&tls.CertificateRequestInfo{})
		if err != nil {
			t.Fatal(err)
		}
		if name == "many" {
			cert.Certificate = slices.Repeat(cert.Certificate[:1], longestChain+1)
		}
		agent.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
		agent.RootCAs = poolOf(r.roots)
		_, err, _ = handshake(t, c.TLS(), agent)
		if refused := err != nil && strings.Contains(err.Error(), "at most"); refused != (name != "few") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
