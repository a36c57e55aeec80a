package rest

import (
	"context"
	"sync/atomic"
)

type placeKey struct{}

// AdmitFunc takes one of the connection slots reserved for authenticated clients, once the client is authenticated, or
// refuses. Staff have slots reserved; machines need few connections.
type AdmitFunc func(name string, staff, machine bool) bool

// place is the state of one connection.
type place struct {
	take    AdmitFunc
	unknown atomic.Int32 // unread answers to a client that has not authenticated
}

// WithAdmit makes the requests of a connection take a slot when their caller is known.
func WithAdmit(ctx context.Context, p AdmitFunc) context.Context {
	return context.WithValue(ctx, placeKey{}, &place{take: p})
}

// Known records the caller of a request for its connection. It returns false if the caller has too many connections. It
// returns true if connections are unlimited.
func Known(ctx context.Context, name string, r Role, v Via) bool {
	p, ok := ctx.Value(placeKey{}).(*place)
	h := HolderOf(name, r, v)
	return !ok || p.take(h.Who, h.Staff, h.Machine)
}
