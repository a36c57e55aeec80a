package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/keystone/keystonetest"
	"edgespan/platform/pki"
)

// tokenHolders is a fleet that knows tokens of operators, and nothing else.
type tokenHolders struct {
	running
	byHash map[string]fleetapi.Caller
	err    error
}

func (f *tokenHolders) Authenticate(_ context.Context, hash string) (fleetapi.Caller, error) {
	c, known := f.byHash[hash]
	if !known && f.err == nil {
		return c, fleetapi.ErrNoToken
	}
	return c, f.err
}

func (f *tokenHolders) Known(hash string) (fleetapi.Caller, bool) {
	c, known := f.byHash[hash]
	return c, known && f.err == nil
}

// gate is a listener of the API that answers who asks, with all that it stands on.
type gate struct {
	t *testing.T
	*httptest.Server
	s         *service
	fleet     *tokenHolders
	keystone  *keystonetest.Keystone
	revoked   *pki.Revocations
	operator  string // a token
	passwords string // the file
	puppet    *x509.Certificate
	puppetKey *ecdsa.PrivateKey
}

func newGate(t *testing.T, args ...string) *gate {
	t.Helper()
	dir := t.TempDir()
	g := &gate{t: t, revoked: &pki.Revocations{}, fleet: &tokenHolders{byHash: map[string]fleetapi.Caller{}},
		passwords: filepath.Join(dir, "passwd")}
	text, kept, err := pki.NewOperatorToken("olga", "operator", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	g.operator, g.fleet.byHash[kept.Hash] = text, fleetapi.Caller{Name: "olga", Role: fleetapi.Operator}
	g.keystone = &keystonetest.Keystone{Users: map[string]keystonetest.User{
		"configdb": {Password: "own", Roles: map[string][]string{"services": {"admin"}}},
		"anna":     {Password: "a", Roles: map[string][]string{"services": {"reader", "admin", "member"}, "hers": {"admin"}}},
		"mia":      {Password: "m", Roles: map[string][]string{"services": {"_member_"}}},
		"rolf":     {Password: "r", Roles: map[string][]string{"services": {"reader", "swift"}}},
		"none":     {Password: "n", Roles: map[string][]string{"services": {"swift"}}},
	}}
	k := httptest.NewUnstartedServer(g.keystone)
	k.Config.ErrorLog = log.New(io.Discard, "", 0)
	k.StartTLS()
	t.Cleanup(k.Close)
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	g.write(g.passwords, "paul:"+string(hash)+":viewer\n")
	g.write(filepath.Join(dir, "secret"), "own\n")
	g.write(filepath.Join(dir, "keystone.pem"), pemOf(k.Certificate().Raw))
	g.makePuppet(filepath.Join(dir, "puppet.pem"))
	if args == nil {
		args = []string{
			"--passwd-file", g.passwords, "--keystone-url", k.URL + "/v3", "--keystone-user", "configdb",
			"--keystone-password-file", filepath.Join(dir, "secret"),
			"--keystone-project", "services", "--keystone-ca-file", filepath.Join(dir, "keystone.pem"), "--client-ca-file",
			filepath.Join(dir, "puppet.pem"),
		}
	}
	o, err := parsed(t, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.Open(pki.Options{Dir: dir, Names: []string{"127.0.0.1"}, Revoked: g.revoked})
	if err != nil {
		t.Fatal(err)
	}
	g.s = &service{o: o, log: zap.NewNop(), issuer: issuer{authority: authority, revoked: g.revoked}, fleet: g.fleet}
	if err := g.s.openAccess(); err != nil {
		t.Fatal(err)
	}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := g.s.factsAuth().Authenticate(r)
		denied := new(configdbapi.Denied)
		switch {
		case errors.As(err, &denied):
			http.Error(w, denied.Text, denied.Status)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			_ = json.NewEncoder(w).Encode(c)
		}
	}))
	g.TLS = g.s.access.callers.TLS()
	g.Config.ErrorLog = log.New(io.Discard, "", 0)
	g.StartTLS()
	t.Cleanup(g.Close)
	return g
}

func (g *gate) write(path, text string) {
	g.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func pemOf(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// makePuppet makes a CA that is not ours.
func (g *gate) makePuppet(path string) {
	g.t.Helper()
	var err error
	if g.puppetKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		g.t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Puppet CA: puppet"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, g.puppetKey.Public(), g.puppetKey)
	if err == nil {
		g.puppet, err = x509.ParseCertificate(der)
	}
	if err != nil {
		g.t.Fatal(err)
	}
	g.write(path, pemOf(der))
}

// agent is a client with a certificate of Puppet's CA.
func (g *gate) agent(name string) *http.Client {
	g.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		g.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature,
	}, g.puppet, key.Public(), g.puppetKey)
	if err != nil {
		g.t.Fatal(err)
	}
	return g.client(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})
}

// client is one that trusts the controller, with a certificate or without.
func (g *gate) client(cert *tls.Certificate) *http.Client {
	roots := x509.NewCertPool()
	for _, der := range g.s.issuer.authority.Roots() {
		ca, err := x509.ParseCertificate(der)
		if err != nil {
			g.t.Fatal(err)
		}
		roots.AddCert(ca)
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots}
	if cert != nil {
		settings.Certificates = []tls.Certificate{*cert}
	}
	t := &http.Transport{TLSClientConfig: settings}
	g.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// node is a client with the certificate of a node that has joined.
func (g *gate) node(id uuid.UUID) *http.Client {
	g.t.Helper()
	c, err := pki.OpenCredentials(g.t.TempDir(), id, time.Now)
	if !errors.Is(err, pki.ErrNotJoined) {
		g.t.Fatal(err)
	}
	csr, err := c.JoinRequest()
	if err != nil {
		g.t.Fatal(err)
	}
	request, err := pki.ParseRequest(csr)
	if err != nil {
		g.t.Fatal(err)
	}
	issued, err := g.s.issuer.authority.Issue(request)
	if err == nil {
		err = c.Install(issued.Chain, issued.Roots)
	}
	if err != nil {
		g.t.Fatal(err)
	}
	settings, err := c.TLS("127.0.0.1")
	if err != nil {
		g.t.Fatal(err)
	}
	return g.client(&settings.Certificates[0])
}

// ask asks with headers, "Name: value" each, and returns the caller or the status with its reason.
func (g *gate) ask(client *http.Client, headers ...string) string {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, g.URL, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Basic" {
			user, password, _ := strings.Cut(value, ":")
			r.SetBasicAuth(user, password)
			continue
		}
		r.Header.Add(name, value)
	}
	resp, err := client.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(text)))
	}
	var c configdbapi.Caller
	if err := json.Unmarshal(text, &c); err != nil {
		g.t.Fatal(err)
	}
	return strings.TrimSpace(fmt.Sprint(c.Name, " ", c.Role, " ", c.Node, c.Certname))
}
