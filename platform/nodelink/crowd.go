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

// What one node may take of the server beside the messages of its stream. A node whose line is bad
// needs some ten streams in its first minute and two a minute after that.
const (
	streamsAtOnce  = 20
	streamsPace    = 0.5 // a second after that
	maxConnections = 8   // of one node: the newest stay
)

// pushbackTrailer says in milliseconds when to come again; it is gRPC's own (proposal A6).
const pushbackTrailer = "grpc-retry-pushback-ms"

// tooMany refuses a stream of a node that had too many, and says when to come again. It takes its time: who asks
// again at once, with all streams that a connection may have, costs next to nothing.
func (s *Server) tooMany(rpc grpc.ServerStream, node string) error {
	wait := s.streams.Take(node, s.opts.Now())
	if wait == 0 {
		return nil
	}
	rpc.SetTrailer(metadata.Pairs(pushbackTrailer, strconv.FormatInt(max(1, wait.Milliseconds()), 10)))
	t := time.NewTimer(s.opts.Refusal)
	defer t.Stop()
	select {
	case <-t.C: // also where the node has given up: gRPC counts it as open until then
	case <-s.stop:
	}
	return status.Errorf(codes.ResourceExhausted, "this node opens streams too often: try again in %v",
		wait.Round(time.Millisecond))
}

// laterError is a controller's word that a node is to come again, and when.
type laterError struct {
	after time.Duration
	error
}

func (e *laterError) Unwrap() error { return e.error }

// sentLater adds to an error what the controller said of when to come again.
func sentLater(err error, trailer metadata.MD) error {
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

// nodeConns are the connections of each node. One that has too many loses its oldest: of a node
// whose line is bad these are the dead ones.
type nodeConns struct {
	mu sync.Mutex
	by map[string][]*turnConn
}

// add takes in a connection of a node.
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
		_ = oldest.Close() // it is ended either way
	}
}

// leave forgets a connection that is closed.
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
