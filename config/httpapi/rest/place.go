package rest

import (
	"context"
	"sync/atomic"
)

type placeKey struct{}

// Place gives a connection one of the places that no unknown client can take, once it is known who is
// at its other end, or refuses. Staff may change things for all; machines need few connections.
type Place func(name string, staff, machine bool) bool

// place is a connection.
type place struct {
	take    Place
	unknown atomic.Int32 // answers under way to who has not said who it is
}

// WithPlace has the requests of a connection say who is at its other end.
func WithPlace(ctx context.Context, p Place) context.Context {
	return context.WithValue(ctx, placeKey{}, &place{take: p})
}

// Known says who sent a request. False is that the caller has all the connections that it can
// have. Where connections have no bound it is true.
func Known(ctx context.Context, name string, r Role, v Via) bool {
	p, is := ctx.Value(placeKey{}).(*place)
	h := HolderOf(name, r, v)
	return !is || p.take(h.Who, h.Staff, h.Machine)
}
