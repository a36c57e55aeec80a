package daemon

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"edgespan/netinst/netstate"
	"edgespan/pubsub/backoff"
)

// keyRetries are the delays between two tries to make or replace the node's key.
var keyRetries = backoff.Backoff{First: time.Second, Max: time.Minute}

// keyStore keeps the node's key for encrypted clusters (host.Host).
type keyStore interface {
	ClusterKeys() (netstate.KeptKey, error)
	AnnounceClusterKey() error
	DateClusterKey() error
	ReplaceClusterKey() error
	TryFormerClusterKey() error
	TryClusterKey() error
	SettleClusterKey() error
}

// clusterKey is the node's public key for encrypted clusters, and the one that shall replace it. The key is made at the
// first start with a controller, which fails while the disk is full.
type clusterKey struct {
	kept atomic.Pointer[netstate.KeptKey]
	link atomic.Pointer[time.Time] // since when the controller has been connected; nil: it is not
	// silenced reports whether a member of an encrypted cluster that was heard before a time has not answered since; nil:
	// not known.
	silenced atomic.Pointer[func(since time.Time) bool]
	// since is when the key was first seen in use, and backs how often the former one was tried since one was settled; of
	// look alone.
	since time.Time
	backs int
	// changed is called after each change; nil: nobody is told.
	changed func()
}

// ClusterKeys returns the key and the next one, "" while there is none.
func (k *clusterKey) ClusterKeys() (key, next string) {
	if kept := k.kept.Load(); kept != nil {
		return kept.Public, kept.Next
	}
	return "", ""
}

func (k *clusterKey) set(kept netstate.KeptKey) {
	was := k.kept.Swap(&kept)
	if was == nil || was.Public != kept.Public {
		k.since = time.Now()
	}
	if k.changed != nil && (was == nil || was.Public != kept.Public || was.Next != kept.Next) {
		k.changed()
	}
}

// keep reads or makes the key, and replaces it each time that its life has passed, until ctx ends; 0: never. It returns
// after the first try; the rest is in the background.
func (k *clusterKey) keep(ctx context.Context, store keyStore, life time.Duration, log *zap.Logger) {
	err := k.look(store, 0, log)
	if err != nil {
		log.Warn("encrypted clusters wait: the node has no key for them", zap.Error(err))
	}
	if err == nil && life == 0 && !k.isOnTrial() {
		return
	}
	go func() {
		tries, waits := 0, err != nil
		for {
			if err != nil {
				tries++
			} else {
				tries = 0
			}
			wait := keyRetries.After(tries)
			if err == nil {
				wait = keyPlan{life}.every()
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			if err = k.look(store, life, log); err != nil {
				continue
			}
			if waits {
				waits = false
				log.Info("the node has its key for encrypted clusters", zap.Int("tries", tries+1))
			}
			if life == 0 && !k.isOnTrial() {
				return
			}
		}
	}()
}

// look reads the keys, and does what is due.
func (k *clusterKey) look(store keyStore, life time.Duration, log *zap.Logger) error {
	kept, err := store.ClusterKeys()
	if err != nil {
		return err
	}
	k.set(kept)
	var said string
	step := k.due(time.Now(), kept, life)
	switch step {
	case keyStays:
		return nil
	case keyAnnounced:
		said, err = "the next key for encrypted clusters is announced", store.AnnounceClusterKey()
	case keyDated:
		said, err = "the key for encrypted clusters is of the future: its life begins now", store.DateClusterKey()
	case keyReplaced:
		said, err = "the key for encrypted clusters is replaced", store.ReplaceClusterKey()
	case keySettled:
		said, err = "the key for encrypted clusters is proven: the controller is connected", store.SettleClusterKey()
	case keyBack:
		said, err = "members do not answer to the new key for encrypted clusters: the former one is tried",
			store.TryFormerClusterKey()
	case keyAgain:
		said, err = "the former key for encrypted clusters does not help: the new one is tried again", store.TryClusterKey()
	}
	if err != nil {
		log.Warn("a step with the key for encrypted clusters fails, and is tried again", zap.Error(err))
		return err
	}
	switch step {
	case keyBack:
		k.backs++
	case keySettled:
		k.backs = 0
	}
	if kept, err = store.ClusterKeys(); err == nil {
		k.set(kept)
		log.Info(said, zap.String("key", kept.Public), zap.String("next", kept.Next))
	}
	return err
}

// due returns what is due with the key.
func (k *clusterKey) due(now time.Time, kept netstate.KeptKey, life time.Duration) keyStep {
	link := k.link.Load()
	switch {
	case kept.Former != "" || kept.Tried != "":
		f := k.silenced.Load()
		// Handshakes are dated by the wall clock, as it is now: the file's date may be of another.
		since := now.Add(-time.Since(k.since))
		if before := since.Sub(kept.Made); before > 0 && before < maxBefore {
			since = kept.Made // by another process
		}
		t := trial{inUse: time.Since(k.since), backs: k.backs, silenced: f != nil && (*f)(since)}
		if link != nil {
			t.linked = max(now.Sub(*link), 1)
		}
		return t.due(kept)
	case life == 0:
		return keyStays
	}
	return keyPlan{life}.due(now, kept, link)
}

// maxBefore is how long before the start of this process a key may have come into use, by a clock that is right.
const maxBefore = 24 * time.Hour

// isOnTrial reports whether one of two keys is not proven yet.
func (k *clusterKey) isOnTrial() bool {
	kept := k.kept.Load()
	return kept != nil && (kept.Former != "" || kept.Tried != "")
}

// keyStep is what is due with a key.
type keyStep int

const (
	keyStays     keyStep = iota
	keyAnnounced         // the next one is made, so that the other nodes learn it
	keyDated             // its life begins now: it was made by a clock that was ahead
	keyReplaced          // the next one takes its place
	keySettled           // the one in use is the right one: the other is no longer needed
	keyBack              // the former one is tried
	keyAgain             // the new one is tried again
)

// keyPlan says when a key is replaced.
type keyPlan struct {
	life time.Duration // of a key, at most; it ends up to a twentieth sooner, so that nodes of one day spread
}

const (
	minKeyLife     = 10 * time.Minute
	defaultKeyLife = 90 * 24 * time.Hour
	// provenAfter is how long a new key has to be of use: a stream that it has cut off has ended by then.
	provenAfter = 2 * time.Minute
	// triedFor is how long the former one is tried: the controller is dialed at least once a minute.
	triedFor = 3 * time.Minute
	// overdueSpread is over which time overdue keys are replaced.
	overdueSpread = time.Hour
)

// notice is how long the next key is known before it is used: a node that was off for less than that has learned it.
func (p keyPlan) notice() time.Duration { return p.life / 10 }

// every is the time between two looks at the age of a key.
func (p keyPlan) every() time.Duration {
	if p.life == 0 { // one of two is not proven yet
		return time.Minute
	}
	return min(p.life/120, time.Minute)
}

// settled is how long the controller must have been connected before the key is replaced: nodes that have missed the
// notice hear of the new one soon, and those that were told late have it.
func (p keyPlan) settled() time.Duration { return min(p.notice()/6, time.Minute) }

// trial is what is known of a key that has replaced another, or of that one while it is tried again. Its times are of
// the monotonic clock: that of the wall may begin in 1970, and be set by servers behind the clusters.
type trial struct {
	inUse  time.Duration // of the key
	linked time.Duration // for how long the controller has been connected; 0: it is not
	// silenced means that a member does not answer to the key. One that answers proves nothing: it may be the one that
	// keeps the others from following. One that does not may be evil, too, or just be away.
	silenced bool
	backs    int // how often the former key was tried before
}

// due returns what is due. Only the controller proves a key. While it is away and a member is silent, the former key is
// tried for some minutes, each time later: members that have followed do not hear the node then.
func (t trial) due(k netstate.KeptKey) keyStep {
	switch {
	case k.Tried != "" && t.linked >= keySettles:
		return keySettled
	case k.Tried != "" && t.linked == 0 && t.inUse >= triedFor:
		return keyAgain
	case k.Tried != "" || t.inUse < provenAfter:
		return keyStays
	case t.linked > 0:
		return keySettled
	case t.silenced && t.inUse >= backsAfter[min(t.backs, len(backsAfter)-1)]:
		return keyBack
	}
	return keyStays
}

// backsAfter are the times for which a key is in use before the former one is tried, for the first time and then.
var backsAfter = []time.Duration{provenAfter, 10 * time.Minute, time.Hour}

// keySettles is for how long the controller must be connected by the former key before that counts.
const keySettles = 30 * time.Second

// due returns what is due with a key that is proven. link is since when the controller has been connected, nil while it
// is not.
func (p keyPlan) due(now time.Time, k netstate.KeptKey, link *time.Time) keyStep {
	sooner := spread(k.Public, p.life/20)
	if settled := link != nil && now.Sub(*link) >= p.settled(); now.Before(k.Made) || now.Before(k.Announced) {
		if settled { // certificates are valid now, so the clock is right; without a battery it may begin in 1970
			return keyDated
		}
		return keyStays
	}
	if now.Sub(k.Made) < p.life-p.notice()-sooner {
		return keyStays
	}
	if k.Next == "" {
		return keyAnnounced
	}
	settled := p.settled()
	if now.Sub(k.Made) > p.life { // nodes that were off return on one day, or their controller does
		settled += spread(k.Public, min(p.life/20, overdueSpread))
	}
	if now.Sub(k.Announced) < p.notice() || link == nil || now.Sub(*link) < settled {
		return keyStays
	}
	return keyReplaced
}

// spread returns a time below over, which depends on the key alone.
func spread(key string, over time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	return time.Duration(float64(over) * float64(h.Sum32()) / (1 << 32))
}

// parseKeyLife reads the life of a key as a person has given it, "" for the default. 0 means that no key is replaced.
func parseKeyLife(text string) (time.Duration, error) {
	if text == "" {
		return defaultKeyLife, nil
	}
	life, err := time.ParseDuration(text)
	if err != nil || life != 0 && life < minKeyLife {
		return 0, fmt.Errorf("--cluster-key-life: %q: must be 0, or a time of at least %v such as 720h", text, minKeyLife)
	}
	return life, nil
}
