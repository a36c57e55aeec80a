package netns_test

import (
	"context"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst/netstate"
	"edgespan/platform/host"
	"edgespan/platform/pki"
)

// fleetNode is a node with a certificate of its controller's CA.
type fleetNode struct {
	t     *testing.T
	ca    *pki.Authority
	creds *pki.Credentials
	dir   string // its state folder
}

func newFleetNode(t *testing.T) *fleetNode {
	t.Helper()
	n := &fleetNode{t: t, dir: t.TempDir()}
	var err error
	if n.ca, err = pki.Open(pki.Options{Dir: t.TempDir(), Names: []string{"controller.example"}}); err != nil {
		t.Fatal(err)
	}
	if n.creds, err = pki.OpenCredentials(n.dir, uuid.New(), time.Now); !errors.Is(err, pki.ErrNotJoined) {
		t.Fatal(err)
	}
	n.install(n.creds.JoinRequest())
	return n
}

// install has the CA sign a request, and installs the certificate.
func (n *fleetNode) install(der []byte, err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
	request, err := pki.ParseRequest(der)
	if err != nil {
		n.t.Fatal(err)
	}
	issued, err := n.ca.Issue(request)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.creds.Install(issued.Chain, n.ca.Roots()); err != nil {
		n.t.Fatal(err)
	}
}

// A gateway that trusts the controller's CA lets a node in by the node's own certificate (auth: node). After a renewal
// the tunnel is to be put again, which disturbs nothing.
func TestANodesOwnCertificateOpensATunnel(t *testing.T) {
	t.Parallel()
	l, ca, node := newIPsecLab(t), newIPsecCA(t), newFleetNode(t)
	if err := os.MkdirAll(filepath.Join(l.dir, "peer", "x509ca"), 0o700); err != nil {
		t.Fatal(err)
	}
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: node.ca.Roots()[0]})
	if err := os.WriteFile(filepath.Join(l.dir, "peer", "x509ca", "fleet.pem"), root, 0o600); err != nil {
		t.Fatal(err)
	}
	l.startSwanWith(ca, inAYear(), swanCert("auth = pubkey\n id = %any\n cacerts = fleet.pem", ""))
	h, err := host.New(host.Config{RunDir: filepath.Join(l.dir, "run"), NetnsPath: l.node.Path,
		StateDir: filepath.Join(l.dir, "state"), Identity: func() (pki.Identity, error) { return pki.IdentityOf(node.dir) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	v := l.vpn(1)
	v.IPsec.Local = netstate.IPsecEnd{Auth: "node"}
	v.IPsec.Remote = netstate.IPsecEnd{ID: "peer.example", Auth: "pubkey", CA: ca.pem}
	put := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), ipsecTimeout)
		defer cancel()
		who := netstate.Owner{Name: uuid.NewString(), Number: ipsecNumber}
		if err := h.Do(ctx, who, netstate.Op{Verb: netstate.Add, Kind: v.ID().Kind,
			Items: []netstate.Item{{Want: v}}}); err != nil {
			t.Fatalf("put: %v", err)
		}
		l.addressed()
		if have, found := l.observe(); !found || have.Text() != v.Text() {
			t.Errorf("observed %q, want %q", have.Text(), v.Text())
		}
	}
	put()
	l.up()
	l.carries()
	before := l.status().Peers[0].SPIs
	node.install(node.creds.RenewalRequest())
	if have, found := l.observe(); !found || have.Text() == v.Text() {
		t.Error("the renewed certificate is not seen")
	}
	put()
	l.carries()
	if now := l.status().Peers[0].SPIs; now != before {
		t.Errorf("the peers have connected anew: %s, was %s", now, before)
	}
}
