package configdbapi

import (
	"context"

	"edgespan/config/configdb"
)

// meterKey is where the context of a request has what that may cost.
type meterKey struct{}

// withMeter gives a request a meter of which nothing is used.
func withMeter(ctx context.Context) context.Context {
	return context.WithValue(ctx, meterKey{}, configdb.NewMeter(ctx.Err))
}

// Meter is what a request may cost still, whatever is asked by its context on the way. A context of no request has one
// of its own.
func Meter(ctx context.Context) *configdb.Meter {
	if m, is := ctx.Value(meterKey{}).(*configdb.Meter); is {
		return m
	}
	return configdb.NewMeter(ctx.Err)
}
