package backend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edgespan/config/kv"
)

// Election is one key that its leader holds under a lease.
type Election struct {
	Store Store
	Key   kv.Key
	TTL   time.Duration // of the leader's lease: after it at the latest another leads
	Clock Clock
}

// Lead campaigns until it wins, then runs work for as long as it leads, and
// resigns. The context of work ends when the lease can no longer be known to
// hold, which is before anyone else can win, as long as the clocks of this
// machine and of the store run alike; the fence of the leadership holds even if
// they do not. Lead returns what work returned; and ErrNoLease or an error of the
// store where the leadership ended first. Until it has won, what the store can't
// do is tried again, unless it is closed.
func (e Election) Lead(ctx context.Context, candidate []byte, work func(context.Context, kv.Leadership) error) error {
	calls, give := context.WithCancel(context.WithoutCancel(ctx))
	defer give()
	l := &leading{
		Election: e, ctx: ctx, calls: calls, candidate: candidate, work: work, machine: kv.NewCandidate(e.Key, e.TTL),
		answers: make(chan kv.Answer), vacant: make(chan struct{}), worked: make(chan error),
	}
	go l.notice()
	if err := l.run(); err != nil {
		return fmt.Errorf("lead %q: %w", e.Key, err)
	}
	return nil
}

// leading drives the machine of one candidate.
type leading struct {
	Election
	ctx       context.Context
	calls     context.Context // of the calls: they outlast ctx, so that nobody waits for the end of the lease
	candidate []byte
	work      func(context.Context, kv.Leadership) error
	machine   *kv.Candidate
	answers   chan kv.Answer
	vacant    chan struct{}
	worked    chan error

	lose context.CancelFunc // of the work; nil: none is under way
	lost error              // why it had to end, or could not begin
	err  error              // of the work, or why there was none
}

// run takes turns until nothing is left to do. It lets go of the lease after the end of the
// work only, unless that is lost already.
func (l *leading) run() error {
	ended := l.ctx.Done()
	turn := l.machine.Advance(l.Clock.Now())
	for {
		l.take(turn)
		if l.lost != nil {
			turn = l.machine.Resign(l.Clock.Now())
			l.take(turn)
		}
		if turn.Over && l.lose == nil {
			return l.end()
		}
		var wake <-chan time.Time
		if !turn.Over {
			wake = At(l.Clock, turn.Wake)
		}
		select {
		case a := <-l.answers:
			turn = l.machine.Answered(l.Clock.Now(), a)
		case <-wake:
			turn = l.machine.Advance(l.Clock.Now())
		case <-l.vacant:
			turn = l.machine.Vacated(l.Clock.Now())
		case l.err = <-l.worked:
			l.lose()
			l.lose = nil
			turn = l.machine.Resign(l.Clock.Now())
		case <-ended:
			ended = nil
			turn = l.machine.Advance(l.Clock.Now())
			if l.lose == nil {
				l.err = l.ctx.Err()
				l.take(turn)
				turn = l.machine.Resign(l.Clock.Now())
			}
		}
	}
}

// take does what a turn says.
func (l *leading) take(turn kv.Turn) {
	switch {
	case turn.Lost != nil:
		l.lost = turn.Lost
		l.lose()
	case errors.Is(turn.Failed, kv.ErrClosed) && l.lose == nil:
		l.lost = turn.Failed
	}
	if turn.Won != nil {
		var ctx context.Context
		ctx, l.lose = context.WithCancel(l.ctx)
		go func() { l.worked <- l.work(ctx, *turn.Won) }()
	}
	if turn.Call != nil {
		go l.call(*turn.Call)
	}
}

// end is what Lead answers. That the context of the work ended says nothing where another
// error says why.
func (l *leading) end() error {
	if l.lost == nil || l.ctx.Err() != nil {
		return l.err
	}
	if errors.Is(l.err, context.Canceled) {
		return l.lost
	}
	return errors.Join(l.lost, l.err)
}

// call asks the store.
func (l *leading) call(c kv.Call) {
	ctx, cancel := context.WithCancel(l.calls)
	defer cancel()
	go func() {
		select {
		case <-l.Clock.After(c.Until.Sub(c.Asked)):
			cancel()
		case <-ctx.Done():
		}
	}()
	a := kv.Answer{Call: c.Number}
	switch c.Kind {
	case kv.CallGrant:
		a.Lease, a.Err = l.Store.Grant(ctx, l.TTL)
	case kv.CallKeepAlive:
		_, a.Err = l.Store.KeepAlive(ctx, c.Lease)
	case kv.CallCampaign:
		a.Outcome, a.Err = l.Store.Commit(ctx, kv.Campaign(l.Key, l.candidate, c.Lease))
	case kv.CallRevoke:
		a.Err = l.Store.Revoke(ctx, c.Lease)
	}
	select {
	case l.answers <- a:
	case <-l.calls.Done():
	}
}

// notice tells that nobody leads: then there is no need to wait for the next try, which comes
// anyway.
func (l *leading) notice() {
	_ = l.Observe(l.calls, func(leader kv.Entry) error {
		if !leader.Exists() {
			select {
			case l.vacant <- struct{}{}:
			case <-l.calls.Done():
			}
		}
		return nil
	})
}

// watch tells of each change of the election's key. A key alone is no prefix: the
// folder that it lies in is watched.
func (e Election) watch(ctx context.Context, after kv.Revision, tell func(kv.Entry) error) error {
	return e.Store.Watch(ctx, folder(e.Key), after, func(b kv.Batch) error {
		for _, ev := range b.Events {
			if ev.Entry.Key != e.Key {
				continue
			}
			now := ev.Entry
			if ev.Kind == kv.EventDelete {
				now = kv.Entry{Key: e.Key}
			}
			if err := tell(now); err != nil {
				return err
			}
		}
		return nil
	})
}

func folder(k kv.Key) kv.Prefix {
	for i := len(k) - 1; i >= 0; i-- {
		if k[i] == '/' {
			return kv.Prefix(k[:i+1])
		}
	}
	return ""
}

// Observe tells who leads, now and after each change, until the context ends or
// tell answers with an error. While nobody leads the entry does not exist.
func (e Election) Observe(ctx context.Context, tell func(leader kv.Entry) error) error {
	for {
		now, at, err := e.Store.Get(ctx, e.Key)
		if err != nil {
			return err
		}
		if err := tell(now); err != nil {
			return err
		}
		err = e.watch(ctx, at, tell)
		if !errors.Is(err, kv.ErrCompacted) {
			return err
		}
	}
}
