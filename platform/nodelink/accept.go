package nodelink

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc/credentials"

	"edgespan/platform/conns"
	"edgespan/platform/pki"
)

// handshakes are TLS in turns, whose failures are noted: a certificate of another CA, or no
// TLS.
type handshakes struct {
	credentials.TransportCredentials
	refusals *refusals
	turns    turns
	timeout  time.Duration // that a connection waits for its turn
	nodes    *nodeConns
}

// ServerHandshake is that of TLS, once it has its turn.
func (h handshakes) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	waits := &turnConn{Conn: c, turns: h.turns, until: time.Now().Add(h.timeout)}
	conn, info, err := h.TransportCredentials.ServerHandshake(waits)
	waits.release()                            // of one that failed
	if err != nil && !errors.Is(err, io.EOF) { // who only looks whether the port is open is no news
		h.refusals.note("connection refused", host(c.RemoteAddr()), err)
	}
	shown, is := info.(credentials.TLSInfo)
	// All nodes are alike: all places are theirs.
	if place, bound := c.(*conns.Conn); err == nil && is && bound && len(shown.State.PeerCertificates) > 0 &&
		!place.Known(conns.Caller{Staff: true}) {
		return nil, nil, errors.Join(errFull, conn.Close())
	}
	if who, none := pki.PeerOf(shown.State); err == nil && is && none == nil {
		h.nodes.add(who.Node.String(), waits)
	}
	return conn, info, err
}

// errFull ends the connection of a node that finds no place.
var errFull = errors.New("too many connected nodes")

// Clone is a copy.
func (h handshakes) Clone() credentials.TransportCredentials {
	h.TransportCredentials = h.TransportCredentials.Clone()
	return h
}

// turns bound how many handshakes are computed at once. Without them thousands of nodes that
// come together share the processors, and all of them are too late; so those who came first
// are done, and who would be too late anyway costs nothing.
type turns chan struct{}

// errCrowd ends a connection that waited in vain. The node comes again after its back-off.
var errCrowd = errors.New("too many nodes connect at once: try again")

// turnConn takes a turn when the client's first message is there and gives it back with the
// answer: who connects and says nothing holds none, and what comes after the answer goes
// before those who wait. One goroutine does the handshake, and no other reads until its end.
type turnConn struct {
	net.Conn
	turns turns
	until time.Time
	has   bool

	read int // bytes, until it has shown a certificate
	node string
	in   *nodeConns // of its node; nil: it has shown no certificate
}

// unknownLimit is how many bytes a connection may send that has shown no certificate of a node: gRPC keeps
// all that came of a message that has no end. A handshake and the largest request to join fit, whatever
// frames they come in.
const unknownLimit = 64 << 10

// errUnknownNode ends a connection that sends more.
var errUnknownNode = fmt.Errorf("more than %d bytes without a node certificate", unknownLimit)

// Close gives its place among those of its node back.
func (c *turnConn) Close() error {
	if c.in != nil {
		c.in.leave(c)
	}
	return c.Conn.Close()
}

// acquireTurn waits for the turn of a connection.
func acquireTurn(of net.Conn) error {
	c := of.(*turnConn)
	wait := time.NewTimer(time.Until(c.until))
	defer wait.Stop()
	select {
	case c.turns <- struct{}{}:
		c.has = true
		return nil
	case <-wait.C:
		return errCrowd
	}
}

func (c *turnConn) release() {
	if c.has {
		c.has = false
		<-c.turns
	}
}

// Read gives the turn back: there is an answer now, and its answer may take its time.
func (c *turnConn) Read(p []byte) (int, error) {
	c.release()
	if c.in != nil {
		return c.Conn.Read(p)
	}
	if c.read >= unknownLimit {
		return 0, errUnknownNode
	}
	n, err := c.Conn.Read(p[:min(len(p), unknownLimit-c.read)])
	c.read += n
	return n, err
}
