package configdbapi

import (
	"context"

	"edgespan/config/configdb"
)

// meterKey is the context key of a request's meter.
type meterKey struct{}

// withMeter adds an unused meter to the context of a request.
func withMeter(ctx context.Context) context.Context {
	return context.WithValue(ctx, meterKey{}, configdb.NewMeter(ctx.Err))
}

// Meter returns the meter of a request, which bounds the cost of everything computed with its context. A context
// without a request gets a new meter.
func Meter(ctx context.Context) *configdb.Meter {
	if m, ok := ctx.Value(meterKey{}).(*configdb.Meter); ok {
		return m
	}
	return configdb.NewMeter(ctx.Err)
}
