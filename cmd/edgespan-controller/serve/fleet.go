package serve

import (
	"context"
	"errors"

	"go.uber.org/zap/zapcore"
)

// Fleet is a controller on the store that speaks to nobody: what judges a write is the same as ever.
type Fleet struct {
	running
	foundation *foundation
}

// OpenFleet starts one, with the data folder and the store that o names; no other controller has them then.
func OpenFleet(ctx context.Context, a *App, o *Options) (*Fleet, error) {
	g, err := openFoundation(ctx, o, a.Version, newLogger(a.Err, zapcore.WarnLevel))
	if err != nil {
		return nil, err
	}
	i, mask, err := g.fleetCA(ctx, o, serverNames(o, nil, nil))
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	c, err := g.tree(o, i, mask, joinAddress(o, nil), nil)
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	f := &Fleet{c, g}
	if err := awaitReady(ctx, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close ends it, and gives the data folder and the store back.
func (f *Fleet) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	return errors.Join(f.Stop(ctx), f.foundation.close())
}
