package keystone

import (
	"context"
	"fmt"
	"time"
)

// owner holds the controller's own token.
type owner struct {
	turn    chan struct{} // one login at a time; guards the fields below
	session Session
	renew   time.Time // when to get a new one
}

// ownToken returns a token of the controller's own user other than spent. It renews the token after four fifths of its
// life; while that fails, it returns the old one.
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

// Own returns the controller's identity in Keystone as of its last login; it is empty before the first one.
func (v *Validator) Own() Identity {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ownID
}
