package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// restart opens the authority again, as the controller's next process does.
func (r *rig) restart(t *testing.T) {
	t.Helper()
	a, err := Open(r.opts)
	if err != nil {
		t.Fatal(err)
	}
	r.Authority = a
}

// comesBack connects a node and says whether its session was resumed.
func (r *rig) comesBack(t *testing.T, c *Credentials) bool {
	t.Helper()
	seen, serverErr, clientErr := handshake(t, r.ServerTLS(), tlsOf(t, c))
	if serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
	if p, err := PeerOf(seen); err != nil || p.Node != c.Node() || r.Admit(p) != nil {
		t.Fatalf("it is seen as %+v: %v", p, err)
	}
	return seen.DidResume
}

func TestANodeResumesItsSessionAfterARestart(t *testing.T) {
	r := newRig(t)
	a, b := r.join(t, nodeA), r.join(t, nodeB)
	if r.comesBack(t, a) || r.comesBack(t, b) {
		t.Fatal("resumed without a session")
	}
	r.restart(t)
	if !r.comesBack(t, a) || !r.comesBack(t, b) || !r.comesBack(t, a) {
		t.Error("not resumed after a restart")
	}
	for day := range 8 {
		r.now = r.now.Add(24 * time.Hour)
		if r.restart(t); !r.comesBack(t, a) {
			t.Errorf("not resumed on day %d, a day after its last session", day)
		}
	}
	r.now = r.now.Add(30 * time.Hour)
	r.comesBack(t, a) // a day later another key encrypts: there are few, and b's is gone
	if keys := readTickets(filepath.Join(r.opts.Dir, ticketsFile), r.Pin().String()); len(keys) > 9 {
		t.Errorf("%d keys", len(keys))
	}
	if r.comesBack(t, b) {
		t.Error("a session is resumed after nine days")
	}
}

// What a ticket says is checked as a certificate is, each time.
func TestATicketOfANodeThatIsRevokedOrExpired(t *testing.T) {
	r := newRig(t, func(o *Options) { o.NodeLife = time.Hour })
	c := r.join(t, nodeA)
	r.comesBack(t, c)
	if err := r.revoked.Replace([]Revocation{{Node: nodeA.String(), At: start, Reason: "stolen"}}); err != nil {
		t.Fatal(err)
	}
	r.restart(t)
	seen, serverErr, clientErr := handshake(t, r.ServerTLS(), tlsOf(t, c))
	if !errors.Is(serverErr, ErrRevoked) || clientErr == nil || seen.HandshakeComplete {
		t.Errorf("revoked: server %v, client %v", serverErr, clientErr)
	}
	if err := r.revoked.Replace(nil); err != nil {
		t.Fatal(err)
	}
	if !r.comesBack(t, c) {
		t.Error("not resumed")
	}
	r.now = r.now.Add(2 * time.Hour)
	if _, serverErr, _ := handshake(t, r.ServerTLS(), tlsOf(t, c)); serverErr == nil {
		t.Error("it comes in after its certificate expired")
	} else if !strings.Contains(serverErr.Error(), "expired") {
		t.Error(serverErr)
	}
}

func TestARenewedCertificateBeginsANewSession(t *testing.T) {
	r := newRig(t)
	c := r.join(t, nodeA)
	r.comesBack(t, c)
	before, err := c.Peer()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := c.RenewalRequest()
	if err != nil {
		t.Fatal(err)
	}
	r.now = r.now.Add(time.Hour)
	issued, err := r.Renew(before, csr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Install(issued.Chain, issued.Roots); err != nil {
		t.Fatal(err)
	}
	if r.comesBack(t, c) {
		t.Error("the session of the certificate before is resumed")
	}
	seen, _, _ := handshake(t, r.ServerTLS(), tlsOf(t, c))
	if p, err := PeerOf(seen); err != nil || !seen.DidResume || p.Serial != issued.Serial {
		t.Errorf("resumed %v with %+v: %v", seen.DidResume, p, err)
	}
}

// A ticket is worth nothing to a controller of other keys, and none of a CA that is not trusted counts.
func TestTicketsOfOtherKeysAndOtherCAs(t *testing.T) {
	path := func(r *rig) string { return filepath.Join(r.opts.Dir, ticketsFile) }
	for name, spoil := range map[string]func(t *testing.T, r *rig){
		"no file": func(t *testing.T, r *rig) { must(t, os.Remove(path(r))) },
		"damaged": func(t *testing.T, r *rig) { must(t, os.WriteFile(path(r), []byte("nothing"), 0o600)) },
		"short": func(t *testing.T, r *rig) {
			must(t, os.WriteFile(path(r), []byte("-----BEGIN EDGESPAN TICKET KEY-----\nCA: "+r.Pin().String()+
				"\nMade: 2026-11-21T12:00:00Z\n\nAAAA\n-----END EDGESPAN TICKET KEY-----\n"), 0o600))
		},
		"of another CA": func(t *testing.T, r *rig) {
			must(t, writeTickets(path(r), newRig(t).Pin().String(), r.tickets.keys))
		},
		"read by others":            func(t *testing.T, r *rig) { must(t, os.Chmod(path(r), 0o644)) },
		"of a clock that was ahead": func(_ *testing.T, r *rig) { r.now = r.now.Add(-48 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := r.join(t, nodeA)
			r.comesBack(t, c)
			if info, err := os.Stat(path(r)); err != nil || info.Mode().Perm() != 0o600 {
				t.Fatalf("%v, %v", info, err)
			}
			old, _ := os.ReadFile(path(r))
			spoil(t, r)
			if r.restart(t); r.comesBack(t, c) {
				t.Error("resumed")
			}
			if now, err := os.ReadFile(path(r)); err != nil || bytes.Equal(now, old) || len(readTickets(path(r), r.Pin().String())) != 1 {
				t.Errorf("the file was not replaced: %v", err)
			}
		})
	}
	t.Run("another CA", func(t *testing.T) {
		r, other := newRig(t), newRig(t)
		c := r.join(t, nodeA)
		r.comesBack(t, c)
		r.tickets.current()
		other.tickets = r.tickets // it can decrypt the ticket
		seen, serverErr, _ := handshake(t, other.ServerTLS(), tlsOf(t, c))
		if serverErr == nil || seen.DidResume {
			t.Errorf("a CA that is not trusted counts in a ticket: %v", serverErr)
		}
	})
	t.Run("a disk that fails", func(t *testing.T) {
		r := newRig(t)
		c := r.join(t, nodeA)
		must(t, os.Mkdir(path(r), 0o700)) // the file can't be written
		if r.comesBack(t, c) || !r.comesBack(t, c) {
			t.Error("not resumed in the same process")
		}
	})
}

// BenchmarkHandshake is a handshake of a node with its controller, and the processor time of both ends.
func BenchmarkHandshake(b *testing.B) {
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
	c := &Credentials{node: nodeA, now: time.Now, sessions: sessionsOf(),
		held: bundle{key: key, chain: []*x509.Certificate{leaf, a.roots[0]}, roots: a.roots}}
	for _, resumed := range []bool{false, true} {
		b.Run(fmt.Sprint("resumed=", resumed), func(b *testing.B) {
			before := processorTime(b)
			for b.Loop() {
				if !resumed {
					c.sessions = sessionsOf()
				}
				shakeHands(b, a.ServerTLS(), c)
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "us-cpu/op")
		})
	}
}

// shakeHands connects a node over loopback; it reads an octet, as a ticket comes before it.
func shakeHands(b *testing.B, server *tls.Config, c *Credentials) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			defer conn.Close()
			_, err = tls.Server(conn, server).Write([]byte("k"))
		}
		done <- err
	}()
	client, err := c.TLS("127.0.0.1")
	if err != nil {
		b.Fatal(err)
	}
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		b.Fatal(err)
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
