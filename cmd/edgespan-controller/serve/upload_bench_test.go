package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkUploads has 32 callers upload values of 2 KB that change each time: nodes, by certificates of Puppet's CA,
// and an admin. What a slow disk makes of it is seen where strace delays each sync (docs/benchmarks.md).
func BenchmarkUploads(b *testing.B) {
	b.Run("nodes", func(b *testing.B) { uploads(b, true) })
	b.Run("admin", func(b *testing.B) { uploads(b, false) })
}

func uploads(b *testing.B, asNodes bool) {
	const nodes, count = 32, 1600
	dir := filepath.Join(b.TempDir(), "data")
	ca := newAuthority(b)
	api := program.Start(b, dir, "--client-ca-file", ca.file).API
	token, err := os.ReadFile(filepath.Join(dir, "admin.token"))
	if err != nil {
		b.Fatal(err)
	}
	admin := ca.client(b, "")
	clients := make([]*http.Client, nodes)
	for n := range clients {
		if clients[n] = admin; asNodes {
			clients[n] = ca.client(b, fmt.Sprint("node-", n))
		}
	}
	send := func(client *http.Client, method, path, body string) {
		r, _ := http.NewRequestWithContext(b.Context(), method, "https://"+api+"/api/v1/config/"+path,
			strings.NewReader(body))
		if client == admin {
			r.Header.Set("X-Auth-Token", strings.TrimSpace(string(token)))
		}
		w, err := client.Do(r)
		if err != nil {
			b.Error(err)
			return
		}
		defer w.Body.Close()
		if text, _ := io.ReadAll(w.Body); w.StatusCode >= 300 {
			b.Errorf("%s: %d %s", path, w.StatusCode, text)
		}
	}
	send(admin, http.MethodPost, "components", `{"name":"facter","resource_definitions":[{"name":"facts"}]}`)
	send(admin, http.MethodPost, "environments",
		`{"components":["facter"],"hierarchy_levels":["nodes"],"self_registration":true}`)
	filling := strings.Repeat("x", 2000)
	var round atomic.Int64
	for b.Loop() {
		var all sync.WaitGroup
		begun := time.Now()
		for n := range nodes {
			all.Go(func() {
				for range count / nodes {
					send(clients[n], http.MethodPut, fmt.Sprintf("environments/1/nodes/node-%d/resources/1/values", n),
						fmt.Sprintf(`{"n":%d,"text":%q}`, round.Add(1), filling))
				}
			})
		}
		all.Wait()
		b.ReportMetric(count/time.Since(begun).Seconds(), "uploads/s")
	}
}

// authority is a CA of certificates of nodes.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string
}

func newAuthority(b *testing.B) *authority {
	b.Helper()
	a := &authority{file: filepath.Join(b.TempDir(), "ca.pem")}
	der := a.issue(b, &x509.Certificate{Subject: pkix.Name{CommonName: "Puppet CA"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	var err error
	if a.cert, err = x509.ParseCertificate(der.Certificate[0]); err != nil {
		b.Fatal(err)
	}
	a.key = der.PrivateKey.(*ecdsa.PrivateKey)
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der.Certificate[0]}),
		0o600); err != nil {
		b.Fatal(err)
	}
	return a
}

func (a *authority) issue(b *testing.B, template *x509.Certificate) tls.Certificate {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()),
		time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		b.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// client shows a certificate of a name, or none.
func (a *authority) client(b *testing.B, name string) *http.Client {
	b.Helper()
	trust := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // of this machine, for this benchmark
	if name != "" {
		trust.Certificates = []tls.Certificate{a.issue(b, &x509.Certificate{
			Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})}
	}
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, TLSClientConfig: trust}}
	b.Cleanup(c.CloseIdleConnections)
	return c
}
