package netns_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/netinst/probe"
)

// serveHTTP serves a handler at a port of remoteTarget behind an uplink, with TLS if there is a config.
func (u *uplinks) serveHTTP(i, port int, config *tls.Config, f http.HandlerFunc) {
	u.t.Helper()
	l := u.listen(i, port)
	if config != nil {
		l = tls.NewListener(l, config)
	}
	server := &http.Server{Handler: f, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	server.SetKeepAlivesEnabled(false)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	u.t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
}

// httpShot requests a URL by wan0. Of the goroutines and sockets that appear meanwhile most are the test's own server's,
// so it waits until both have closed theirs.
func (u *uplinks) httpShot(target string) error {
	u.t.Helper()
	goroutines, sockets := runtime.NumGoroutine(), openSockets(u.t)
	_, err := u.shootAt(shotTime, probe.ID{IfName: "wan0", Method: probe.HTTP, Target: target, Servers: remoteTarget})
	until(u.t, "nothing is left of the shot at "+target, func() bool {
		return openSockets(u.t) <= sockets && runtime.NumGoroutine() <= goroutines
	})
	return err
}

func TestAWebPageIsRequestedByTheInterfaceAlone(t *testing.T) {
	u := newUplinks(t)
	var asked [2]atomic.Int64
	for i := range u.isp {
		u.names(i, answerA(remoteTarget))
		u.serveHTTP(i, 80, nil, func(w http.ResponseWriter, r *http.Request) {
			asked[i].Add(1)
			if name, password, _ := r.BasicAuth(); r.URL.Path == "/secret" && (name != "probe" || password != "pw") {
				w.WriteHeader(http.StatusUnauthorized)
			}
			if r.Host != "www.example.org" && r.Host != remoteTarget || r.Method != http.MethodGet || !r.Close {
				t.Errorf("%s of %s, close %v", r.Method, r.Host, r.Close)
			}
		})
	}
	t.Setenv("http_proxy", "http://203.0.113.1:3128")
	t.Setenv("HTTP_PROXY", "http://203.0.113.1:3128")
	for _, target := range []string{"http://www.example.org", "http://198.51.100.1/generate_204?x=1",
		"http://probe:pw@www.example.org/secret"} {
		if err := u.httpShot(target); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
	u.kill(0)
	for target, words := range map[string]string{
		"http://www.example.org": "resolve www.example.org: no answer from DNS server 198.51.100.1",
		"http://198.51.100.1/":   "no connection to 198.51.100.1:80",
		"https://198.51.100.1/":  "no connection to 198.51.100.1:443",
	} {
		if err := u.httpShot(target); err == nil || err.Error() != words {
			t.Errorf("%s: %v, want %q", target, err, words)
		}
	}
	if asked[0].Load() != 3 || asked[1].Load() != 0 {
		t.Errorf("%d requests by wan0, want 3; %d by wan1, want none", asked[0].Load(), asked[1].Load())
	}
}

// A captive portal that answers each request with a page of its own is no web server.
func TestAPageHasTheTextThatIsExpected(t *testing.T) {
	u := newUplinks(t)
	const text = "it works"
	far := strings.Repeat("x", 64<<10-len(text))
	write := func(w http.ResponseWriter, parts ...string) {
		for _, part := range parts {
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush() // a chunk of its own
		}
	}
	u.serveHTTP(0, 80, nil, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			write(w, "<p>", text, "</p>")
		case "/letters":
			write(w, strings.Split(text, "")...)
		case "/last":
			write(w, far+text)
		case "/waits":
			write(w, text)
			<-r.Context().Done()
		case "/beyond":
			write(w, "x", far+text)
		case "/portal":
			write(w, "please log in")
		case "/endless":
			for r.Context().Err() == nil {
				write(w, strings.Repeat("it work", 1<<10))
			}
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		case "/header":
			w.Header().Set("X-Text", text)
			write(w, "please log in")
		case "/silent":
			write(w, "")
			<-r.Context().Done()
		}
	})
	const other, none = remoteTarget + " answers another page", "no page from " + remoteTarget
	for path, want := range map[string]string{"/": "", "/letters": "", "/last": "", "/waits": "", "/beyond": other,
		"/portal": other, "/endless": other, "/none": other, "/header": other, "/silent": none} {
		_, err := u.shootAt(shotTime, probe.ID{IfName: "wan0", Method: probe.HTTP, Target: "http://" + remoteTarget + path,
			Body: text})
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		if want == other {
			if err := u.httpShot("http://" + remoteTarget + path); err != nil {
				t.Errorf("%s without a text: %v", path, err)
			}
		}
	}
}

func TestARedirectionAnErrorAndNoHTTPAreFailures(t *testing.T) {
	u := newUplinks(t)
	u.serveHTTP(0, 80, nil, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/portal":
			w.Header().Set("Location", "https://login.example.net/?from=x")
			w.WriteHeader(http.StatusFound)
		case "/slash":
			w.Header().Set("Location", "/slash/")
			w.WriteHeader(http.StatusMovedPermanently)
		case "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/silent":
			<-r.Context().Done()
		}
	})
	for port, text := range map[int]string{
		8001: "SSH-2.0-OpenSSH_9.9\r\n",
		8002: "HTTP/1.1 999999 OK\r\n\r\n",
		8003: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 10000),
		8004: strings.Repeat("x", 1<<20),
		8005: "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + strings.Repeat("x", 1<<20),
		8006: "HTTP/1.1 302 Found\r\nX: " + strings.Repeat("x", 1<<20) + "\r\nLocation: http://far.example.net/\r\n\r\n",
		8007: "",
	} {
		u.say(0, port, text)
	}
	for path, words := range map[string]string{
		"/portal":  "redirected to login.example.net",
		"/slash":   "redirected to 198.51.100.1",
		"/busy":    "198.51.100.1 answers 503 Service Unavailable",
		"/silent":  "no HTTP answer from 198.51.100.1",
		":8001/":   "no HTTP answer from 198.51.100.1:8001",
		":8002/":   "no HTTP answer from 198.51.100.1:8002",
		":8003/":   "no HTTP answer from 198.51.100.1:8003",
		":8004/":   "no HTTP answer from 198.51.100.1:8004",
		":8005/":   "",
		":8006/":   "redirected to 198.51.100.1",
		":8007/":   "no HTTP answer from 198.51.100.1:8007",
		":8008/":   "198.51.100.1:8008 refused the connection",
		":0/":      `invalid port "0": must be 1 to 65535`,
		":port/":   "invalid target: must be a URL such as http://HOST/PATH or https://HOST/PATH",
		":8001/\n": "invalid target: must be a URL such as http://HOST/PATH or https://HOST/PATH",
	} {
		for range 2 {
			err := u.httpShot("http://" + remoteTarget + path)
			if err == nil && words != "" || err != nil && err.Error() != words {
				t.Errorf("%q: %v, want %q", path, err, words)
			}
		}
	}
}

// say answers each connection to a port with a text, and closes it once the client does, or at once if there is none.
func (u *uplinks) say(i, port int, text string) {
	l := u.listen(i, port)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func(c net.Conn) {
				defer c.Close()
				_, _ = io.WriteString(c, text)
				if text != "" {
					_, _ = io.Copy(io.Discard, c)
				}
			}(c)
		}
	}()
}

// certificate returns one for a name that lasts from an hour ago for a duration, and is its own authority.
func certificate(t *testing.T, name string, lasts time.Duration) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now().Add(-time.Hour)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: from,
		NotAfter: from.Add(lasts), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestACertificateIsVerified(t *testing.T) {
	u := newUplinks(t)
	u.names(0, answerA(remoteTarget))
	var trusted []byte
	for i, x := range []struct {
		name  string
		lasts time.Duration
	}{{"www.example.org", 2 * time.Hour}, {"www.example.net", 2 * time.Hour}, {"www.example.org", time.Minute},
		{"www.example.org", 3 * time.Hour}} {
		cert, text := certificate(t, x.name, x.lasts)
		if i < 3 {
			trusted = append(trusted, text...)
		}
		u.serveHTTP(0, 8440+i, &tls.Config{Certificates: []tls.Certificate{cert}},
			func(http.ResponseWriter, *http.Request) {})
	}
	u.say(0, 8444, "HTTP/1.1 400 Bad Request\r\n\r\n")
	file := filepath.Join(t.TempDir(), "authorities.pem")
	if err := os.WriteFile(file, trusted, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", file) // read once in a process: no other test of this package verifies by the system's
	t.Setenv("SSL_CERT_DIR", t.TempDir())
	for i, words := range []string{
		"",
		"the certificate of www.example.org is for another name",
		"the certificate of www.example.org has expired, or is not valid yet",
		"the certificate of www.example.org is signed by an unknown authority",
		"no TLS handshake with www.example.org",
	} {
		for range 2 {
			err := u.httpShot(fmt.Sprintf("https://www.example.org:%d/", 8440+i))
			if err == nil && words != "" || err != nil && err.Error() != words {
				t.Errorf("port %d: %v, want %q", 8440+i, err, words)
			}
		}
	}
}
