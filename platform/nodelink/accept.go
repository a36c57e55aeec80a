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

// handshakes are TLS handshakes that take turns. They log failures: a certificate of another CA, or no TLS.
type handshakes struct {
	credentials.TransportCredentials
	refusals *refusals
	turns    turns
	timeout  time.Duration // longest wait of a connection for its turn
	nodes    *nodeConns
}

// ServerHandshake does the TLS handshake once the connection has its turn.
func (h handshakes) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	waits := &turnConn{Conn: c, turns: h.turns, until: time.Now().Add(h.timeout)}
	conn, info, err := h.TransportCredentials.ServerHandshake(waits)
	waits.release()                            // after a failure
	if err != nil && !errors.Is(err, io.EOF) { // a port check is not worth a log line
		h.refusals.note("connection refused", host(c.RemoteAddr()), err)
	}
	shown, ok := info.(credentials.TLSInfo)
	// All nodes are equal: each may use every place.
	if place, bound := c.(*conns.Conn); err == nil && ok && bound && len(shown.State.PeerCertificates) > 0 &&
		!place.Known(conns.Caller{Staff: true}) {
		return nil, nil, errors.Join(errFull, conn.Close())
	}
	if who, none := pki.PeerOf(shown.State); err == nil && ok && none == nil {
		h.nodes.add(who.Node.String(), waits)
	}
	return conn, info, err
}

// errFull ends the connection of a node when all places are in use.
var errFull = errors.New("too many connected nodes")

// Clone returns a copy.
func (h handshakes) Clone() credentials.TransportCredentials {
	h.TransportCredentials = h.TransportCredentials.Clone()
	return h
}

// turns bounds the handshakes computed at once. Without a bound, thousands of nodes that connect together share the
// processors and all of them time out. With it, the first ones complete, and those that would time out cost nothing.
type turns chan struct{}

// errCrowd ends a connection whose wait for a turn timed out. The node retries after its back-off.
var errCrowd = errors.New("too many nodes connect at once: try again")

// turnConn acquires a turn when the client's first message arrives and releases it with the answer: an idle connection
// holds none, and messages after the answer go ahead of waiting connections. One goroutine does the handshake, and
// nothing else reads before its end.
type turnConn struct {
	net.Conn
	turns turns
	until time.Time
	has   bool

	read int // bytes, until a certificate is verified
	node string
	in   *nodeConns // of its node; nil: no certificate yet
}

// unknownLimit bounds the bytes of a connection without a node certificate: gRPC buffers all of a message that never
// ends. A handshake and the largest join request fit, in whatever frames they arrive.
const unknownLimit = 64 << 10

// errUnknownNode ends a connection that exceeds unknownLimit.
var errUnknownNode = fmt.Errorf("more than %d bytes without a node certificate", unknownLimit)

// Close releases its place among the connections of its node.
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

// Read releases the turn: the server has answered, and the client may take its time.
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
