package httpapi

import "context"

type placeKey struct{}

// WithPlace has the requests of a connection say who is at its other end, once that is known:
// known then gives the connection a place that no unknown client can take, or refuses.
func WithPlace(ctx context.Context, known func(caller string) bool) context.Context {
	return context.WithValue(ctx, placeKey{}, known)
}

// Known says who sent a request. False is that the caller has all the connections that it can
// have. Where connections have no bound it is true.
func Known(ctx context.Context, caller string) bool {
	known, is := ctx.Value(placeKey{}).(func(string) bool)
	return !is || known(caller)
}
