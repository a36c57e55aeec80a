package keystone

import (
	"context"
	"fmt"
	"time"
)

// owner has the token of our own.
type owner struct {
	turn    chan struct{} // one logs in at a time; it guards what follows
	session Session
	renew   time.Time // when a new one is fetched
}

// ownToken is a token of the controller's own user that is not the spent one. It is renewed
// after four fifths of its life; while that fails, the old one goes on.
func (v *Validator) ownToken(ctx context.Context, spent string) (string, error) {
	select {
	case v.own.turn <- struct{}{}:
		defer func() { <-v.own.turn }()
	case <-ctx.Done():
		return "", &Away{Why: "login timed out", err: ctx.Err()}
	}
	have, now := v.own.session, time.Now()
	holds := have.Token != "" && have.Token != spent && now.Before(have.Expires)
	if holds && now.Before(v.own.renew) {
		return have.Token, nil
	}
	who := v.opts.Own
	var next Session
	var err error
	if who.Password, err = v.opts.Secret(); err == nil {
		next, err = v.c.login(ctx, who, false)
	}
	switch {
	case err != nil && holds:
		v.own.renew = now.Add(pauses.Max)
		return have.Token, nil
	case err != nil:
		return "", fmt.Errorf("log the controller in: %w", err)
	}
	v.own.session, v.own.renew = next, now.Add(next.Expires.Sub(now)*4/5)
	v.mu.Lock()
	v.ownID = next.Identity
	v.mu.Unlock()
	return next.Token, nil
}

// Own is who the controller is at Keystone since its last login; before one it is nobody.
func (v *Validator) Own() Identity {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ownID
}
