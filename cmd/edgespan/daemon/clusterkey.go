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
	RestoreClusterKey() error
	ProveClusterKey() error
}

// clusterKey is the node's public key for encrypted clusters, and the one that shall replace it. The key is made at the
// first start with a controller, which fails while the disk is full.
type clusterKey struct {
	kept atomic.Pointer[netstate.KeptKey]
	link atomic.Pointer[time.Time] // since when the controller has been connected; nil: it is not
	// silenced reports whether a member of an encrypted cluster that was heard before a time has not answered since; nil:
	// not known.
	silenced atomic.Pointer[func(since time.Time) bool]
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
	if err == nil && life == 0 {
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
			if life == 0 {
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
	if life == 0 {
		return nil
	}
	var said string
	switch (keyPlan{life}).due(time.Now(), kept, k.link.Load(), k.isSilenced(kept)) {
	case keyStays:
		return nil
	case keyAnnounced:
		said, err = "the next key for encrypted clusters is announced", store.AnnounceClusterKey()
	case keyDated:
		said, err = "the key for encrypted clusters is of the future: its life begins now", store.DateClusterKey()
	case keyReplaced:
		said, err = "the key for encrypted clusters is replaced", store.ReplaceClusterKey()
	case keyProven:
		said, err = "the key for encrypted clusters is proven", store.ProveClusterKey()
	case keyRestored:
		said, err = "members do not answer to the new key for encrypted clusters: the former one is back",
			store.RestoreClusterKey()
	}
	if err != nil {
		log.Warn("a step with the key for encrypted clusters fails, and is tried again", zap.Error(err))
		return err
	}
	if kept, err = store.ClusterKeys(); err == nil {
		k.set(kept)
		log.Info(said, zap.String("key", kept.Public), zap.String("next", kept.Next))
	}
	return err
}

func (k *clusterKey) isSilenced(kept netstate.KeptKey) bool {
	f := k.silenced.Load()
	return f != nil && kept.Former != "" && (*f)(kept.Made)
}

// keyStep is what is due with a key.
type keyStep int

const (
	keyStays     keyStep = iota
	keyAnnounced         // the next one is made, so that the other nodes learn it
	keyDated             // its life begins now: it was made by a clock that was ahead
	keyReplaced          // the next one takes its place
	keyProven            // the former one is no longer needed
	keyRestored          // the former one is put back
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
	// overdueSpread is over which time overdue keys are replaced.
	overdueSpread = time.Hour
)

// notice is how long the next key is known before it is used: a node that was off for less than that has learned it.
func (p keyPlan) notice() time.Duration { return p.life / 10 }

// every is the time between two looks at the age of a key.
func (p keyPlan) every() time.Duration { return min(p.life/120, time.Minute) }

// settled is how long the controller must have been connected before the key is replaced: nodes that have missed the
// notice hear of the new one soon, and those that were told late have it.
func (p keyPlan) settled() time.Duration { return min(p.notice()/6, time.Minute) }

// due returns what is due. link is since when the controller has been connected, nil while it is not. silenced
// means that a member has not answered since the key has replaced another, though it was heard just before. One that
// answers proves nothing: it may be the one that keeps the others from following.
func (p keyPlan) due(now time.Time, k netstate.KeptKey, link *time.Time, silenced bool) keyStep {
	sooner := spread(k.Public, p.life/20)
	if settled := link != nil && now.Sub(*link) >= p.settled(); now.Before(k.Made) || now.Before(k.Announced) {
		if settled { // certificates are valid now, so the clock is right; without a battery it may begin in 1970
			return keyDated
		}
		return keyStays
	}
	switch {
	case k.Former == "":
	case now.Sub(k.Made) < provenAfter:
		return keyStays
	case link == nil && silenced:
		return keyRestored
	default:
		return keyProven
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
