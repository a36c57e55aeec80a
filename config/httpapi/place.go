package httpapi

import "context"

type placeKey struct{}

// Place gives a connection one of the places that no unknown client can take, once it is known who is
// at its other end, or refuses. Staff may change things for all; machines need few connections.
type Place func(name string, staff, machine bool) bool

// WithPlace has the requests of a connection say who is at its other end.
func WithPlace(ctx context.Context, p Place) context.Context {
	return context.WithValue(ctx, placeKey{}, p)
}

// Known says who sent a request. False is that the caller has all the connections that it can
// have. Where connections have no bound it is true.
func Known(ctx context.Context, name string, r Role, v Via) bool {
	place, is := ctx.Value(placeKey{}).(Place)
	machine := v == ViaCertificate
	return !is || place(v.Of(name), r.May(Operator) && !machine, machine)
}
