package nodelink

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Limits of one node beyond the messages of its stream. A node with a bad line needs some ten streams in its first
// minute and two a minute after that.
const (
	streamsAtOnce  = 20
	streamsPace    = 0.5 // per second after that
	maxConnections = 8   // of one node: the newest stay
)

// pushbackTrailer tells the client, in milliseconds, when to retry; it is gRPC's own (proposal A6).
const pushbackTrailer = "grpc-retry-pushback-ms"

// tooMany refuses a stream of a node with too many, and says when to retry. It answers with a delay, so that a node
// that retries at once with all the streams of a connection costs next to nothing.
func (s *Server) tooMany(rpc grpc.ServerStream, node string) error {
	wait := s.streams.Allow(node, s.opts.Now())
	if wait == 0 {
		return nil
	}
	rpc.SetTrailer(metadata.Pairs(pushbackTrailer, strconv.FormatInt(max(1, wait.Milliseconds()), 10)))
	t := time.NewTimer(s.opts.Refusal)
	defer t.Stop()
	select {
	case <-t.C: // also if the node has given up: gRPC counts the stream as open until then
	case <-s.stop:
	}
	return status.Errorf(codes.ResourceExhausted, "this node opens streams too often: try again in %v",
		wait.Round(time.Millisecond))
}

// laterError is a controller's request to retry later.
type laterError struct {
	after time.Duration
	error
}

func (e *laterError) Unwrap() error { return e.error }

// withRetryTime adds the controller's retry time to an error.
func withRetryTime(err error, trailer metadata.MD) error {
	said := trailer.Get(pushbackTrailer)
	if len(said) == 0 || !errors.Is(err, ErrBusy) {
		return err
	}
	ms, bad := strconv.ParseUint(said[0], 10, 31)
	if bad != nil {
		return err
	}
	return &laterError{min(time.Duration(ms)*time.Millisecond, connectWaits.Max), err}
}

// nodeConns holds the connections of each node. If a node has too many, its oldest is closed: on a bad line, the oldest
// are dead.
type nodeConns struct {
	mu sync.Mutex
	by map[string][]*turnConn
}

// add records a node's connection.
func (n *nodeConns) add(node string, c *turnConn) {
	var oldest *turnConn
	n.mu.Lock()
	c.node, c.in = node, n
	all := append(n.by[node], c)
	if len(all) > maxConnections {
		oldest, all = all[0], all[1:]
	}
	n.by[node] = all
	n.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // it is closed either way
	}
}

// leave removes a closed connection.
func (n *nodeConns) leave(c *turnConn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.by[c.node]
	for i, one := range all {
		if one == c {
			all = append(all[:i:i], all[i+1:]...)
			break
		}
	}
	if n.by[c.node] = all; len(all) == 0 {
		delete(n.by, c.node)
	}
}
