package fleet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/md5"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"edgespan/config"
	"edgespan/platform/nodelink/linkpb"
	"edgespan/platform/pki"
)

// bareNode is one of the floor's nodes: it does what nobody can leave out.
type bareNode struct {
	file string
	disk chan struct{}
}

func floorClients(in *json.Decoder, out *json.Encoder) error {
	var ask floorAsk
	if err := in.Decode(&ask); err != nil {
		return err
	}
	ca, err := pki.Open(pki.Options{Dir: ask.Dir, Names: []string{"127.0.0.1"}})
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	for _, der := range ca.Roots() {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		roots.AddCert(cert)
	}
	disk := make(chan struct{}, atOnce)
	nodes := make(chan int)
	failed := make(chan error, 1)
	for range 2 * runtime.NumCPU() {
		go func() {
			for i := range nodes {
				if err := openFloorNode(ca, roots, ask.Client, disk, i); err != nil {
					select {
					case failed <- fmt.Errorf("node %d: %w", i, err):
					default:
					}
				}
			}
		}()
	}
	for i := range ask.Client.Nodes {
		select {
		case nodes <- i:
		case err := <-failed:
			return err
		}
	}
	if err := out.Encode(floorAnswer{Open: ask.Client.Nodes}); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- in.Decode(&ask) }()
	select {
	case <-ended: // whoever asked has gone
		return nil
	case err := <-failed:
		return err
	}
}

// openFloorNode opens one stream with a certificate of its own and answers on it.
func openFloorNode(ca *pki.Authority, roots *x509.CertPool, ask *floorClientsAsk, disk chan struct{}, i int) error {
	id := uuid.New()
	cert, err := floorCertificate(ca, id)
	if err != nil {
		return err
	}
	settings := &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots, MinVersion: tls.VersionTLS13}
	conn, err := grpc.NewClient("passthrough:///"+ask.Addr, grpc.WithTransportCredentials(credentials.NewTLS(settings)))
	if err != nil {
		return err
	}
	rpc, err := conn.NewStream(context.Background(),
		&grpc.StreamDesc{StreamName: "Link", ServerStreams: true, ClientStreams: true}, floorMethod)
	if err != nil {
		return err
	}
	if err := rpc.SendMsg(&linkpb.Up{Kind: &linkpb.Up_Hello{Hello: &linkpb.Hello{Node: id.String()}}}); err != nil {
		return err
	}
	n := &bareNode{disk: disk}
	if ask.Folder != "" {
		n.file = filepath.Join(ask.Folder, fmt.Sprintf("%05d.json", i))
	}
	go n.run(rpc)
	return nil
}

func floorCertificate(ca *pki.Authority, id uuid.UUID) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		URIs: []*url.URL{{Scheme: "urn", Opaque: "edgespan:node:" + id.String()}},
	}, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	request, err := pki.ParseRequest(der)
	if err != nil {
		return tls.Certificate{}, err
	}
	issued, err := ca.Issue(request)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: issued.Chain, PrivateKey: key}, nil
}

func (n *bareNode) run(rpc grpc.ClientStream) {
	for {
		m := &linkpb.Down{}
		if err := rpc.RecvMsg(m); err != nil {
			return
		}
		push := m.GetPush()
		digest, err := n.take(push.GetDocument())
		if err != nil || digest != push.GetMd5() {
			fmt.Fprintf(os.Stderr, "floor node: %s for %s: %v\n", digest, push.GetMd5(), err)
			return
		}
		err = rpc.SendMsg(&linkpb.Up{Kind: &linkpb.Up_Result{Result: &linkpb.Result{
			Attempt: push.GetAttempt(), Generation: push.GetGeneration(), Md5: digest, Outcome: linkpb.Outcome_OUTCOME_APPLIED,
		}}})
		if err != nil {
			return
		}
	}
}

// take is the work of a node: Unmarshal, canonical form, MD5, write, fsync, rename.
func (n *bareNode) take(document []byte) (string, error) {
	var parsed map[string]any
	if err := json.Unmarshal(document, &parsed); err != nil {
		return "", err
	}
	canonical := config.AppendCanonical(nil, parsed)
	sum := md5.Sum(canonical)
	if n.file == "" {
		return hex.EncodeToString(sum[:]), nil
	}
	n.disk <- struct{}{}
	defer func() { <-n.disk }()
	f, err := os.Create(n.file + ".new")
	if err != nil {
		return "", err
	}
	_, err = f.Write(canonical)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum[:]), os.Rename(n.file+".new", n.file)
}
