package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edgespan/config/revision"
)

// Election is one key that its leader holds under a lease.
type Election struct {
	Store Store
	Key   revision.Key
	TTL   time.Duration // of the leader's lease: after it at the latest another leads
	Clock Clock
}

// errReplaced ends a leadership whose key is no longer the one that was won.
var errReplaced = errors.New("leadership is lost")

// Lead campaigns until it wins, then runs work for as long as it leads, and
// resigns. The context of work ends when the lease can no longer be known to
// hold, which is before anyone else can win, as long as the clocks of this
// machine and of the store run alike; the fence of the leadership holds even if
// they do not. Lead returns what work returned; and ErrNoLease or an error of the
// store where the leadership ended first.
func (e Election) Lead(ctx context.Context, candidate []byte, work func(context.Context, revision.Leadership) error) error {
	granted := e.Clock.Now()
	lease, err := e.Store.Grant(ctx, e.TTL)
	if err != nil {
		return fmt.Errorf("campaign for %q: %w", e.Key, err)
	}
	leading, lose := context.WithCancelCause(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		lose(e.keep(leading, lease, granted))
	}()
	err = e.run(leading, lease, candidate, work)
	lost := context.Cause(leading)
	lose(nil)
	<-kept
	// The lease is let go of in any case, so that nobody waits for its end.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.TTL)
	defer cancel()
	if gone := e.Store.Revoke(end, lease); gone != nil && !errors.Is(gone, revision.ErrNoLease) && err == nil {
		err = gone
	}
	if lost != nil && ctx.Err() == nil {
		return fmt.Errorf("lead %q: %w", e.Key, errors.Join(lost, other(err)))
	}
	if err != nil {
		return fmt.Errorf("lead %q: %w", e.Key, err)
	}
	return nil
}

// other leaves out the error that only says that the context ended.
func other(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (e Election) run(ctx context.Context, lease revision.LeaseID, candidate []byte, work func(context.Context, revision.Leadership) error) error {
	lead, err := e.campaign(ctx, lease, candidate)
	if err != nil {
		return err
	}
	return work(ctx, lead)
}

// keep keeps the lease alive, three times in its time to live, until the context
// ends or the lease is over or cannot be known not to be.
func (e Election) keep(ctx context.Context, lease revision.LeaseID, since time.Time) error {
	for {
		left := e.TTL - e.Clock.Now().Sub(since)
		if left <= 0 {
			return fmt.Errorf("%w: lease %d was not kept alive for %s", errReplaced, lease, e.TTL)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.Clock.After(min(left, e.TTL/3)):
		}
		asked := e.Clock.Now()
		// The question may not outlast the lease.
		err := e.within(ctx, e.TTL-asked.Sub(since), func(ctx context.Context) error {
			_, err := e.Store.KeepAlive(ctx, lease)
			return err
		})
		switch {
		case err == nil:
			since = asked
		case errors.Is(err, revision.ErrNoLease), errors.Is(err, revision.ErrClosed):
			return err
		}
	}
}

// within gives a call some time of the election's clock.
func (e Election) within(ctx context.Context, d time.Duration, call func(context.Context) error) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call(inner) }()
	select {
	case err := <-done:
		return err
	case <-e.Clock.After(d):
		cancel()
		return errors.Join(context.DeadlineExceeded, <-done)
	}
}

// campaign tries whenever nobody leads.
func (e Election) campaign(ctx context.Context, lease revision.LeaseID, candidate []byte) (revision.Leadership, error) {
	for {
		out, err := e.Store.Commit(ctx, revision.Campaign(e.Key, candidate, lease))
		if err != nil {
			return revision.Leadership{}, err
		}
		lead, who, won := revision.Won(e.Key, out)
		if won {
			return lead, nil
		}
		if who.Lease == lease { // an earlier attempt whose answer was lost
			return revision.Leadership{Key: e.Key, Revision: who.ModRevision}, nil
		}
		if err := e.vacant(ctx, out.Revision); err != nil {
			return revision.Leadership{}, err
		}
	}
}

var errVacant = errors.New("nobody leads")

// vacant waits until nobody leads; it may say so too early.
func (e Election) vacant(ctx context.Context, after revision.Revision) error {
	err := e.watch(ctx, after, func(leader revision.Entry) error {
		if leader.Exists() {
			return nil
		}
		return errVacant
	})
	if errors.Is(err, errVacant) || errors.Is(err, revision.ErrCompacted) {
		return nil
	}
	return err
}

// watch tells of each change of the election's key. A key alone is no prefix: the
// folder that it lies in is watched.
func (e Election) watch(ctx context.Context, after revision.Revision, tell func(revision.Entry) error) error {
	return e.Store.Watch(ctx, folder(e.Key), after, func(b revision.Batch) error {
		for _, ev := range b.Events {
			if ev.Entry.Key != e.Key {
				continue
			}
			now := ev.Entry
			if ev.Kind == revision.EventDelete {
				now = revision.Entry{Key: e.Key}
			}
			if err := tell(now); err != nil {
				return err
			}
		}
		return nil
	})
}

func folder(k revision.Key) revision.Prefix {
	for i := len(k) - 1; i >= 0; i-- {
		if k[i] == '/' {
			return revision.Prefix(k[:i+1])
		}
	}
	return ""
}

// Observe tells who leads, now and after each change, until the context ends or
// tell answers with an error. While nobody leads the entry does not exist.
func (e Election) Observe(ctx context.Context, tell func(leader revision.Entry) error) error {
	for {
		now, at, err := e.Store.Get(ctx, e.Key)
		if err != nil {
			return err
		}
		if err := tell(now); err != nil {
			return err
		}
		err = e.watch(ctx, at, tell)
		if !errors.Is(err, revision.ErrCompacted) {
			return err
		}
	}
}
