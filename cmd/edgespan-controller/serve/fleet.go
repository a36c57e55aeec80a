package serve

import (
	"context"
	"errors"

	"go.uber.org/zap/zapcore"
)

// LocalController is a controller without APIs, on the store. It validates writes as every controller does.
type LocalController struct {
	running
	foundation *foundation
}

// OpenLocal starts a Fleet on the data folder and the store that o names. It excludes any other controller.
func OpenLocal(ctx context.Context, a *App, o *Options) (*LocalController, error) {
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
	f := &LocalController{c, g}
	if err := awaitReady(ctx, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close stops the actors and releases the data folder and the store.
func (f *LocalController) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	return errors.Join(f.Stop(ctx), f.foundation.close())
}
