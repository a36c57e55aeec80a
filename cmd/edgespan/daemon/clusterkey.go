package daemon

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"edgespan/pubsub/backoff"
)

// keyRetries are the delays between two tries to make the node's key.
var keyRetries = backoff.Backoff{First: time.Second, Max: time.Minute}

// clusterKey is the node's public key for encrypted clusters. The key is made at the first start with a controller,
// which fails while the disk is full.
type clusterKey struct{ text atomic.Value }

// get returns the key, "" while there is none.
func (k *clusterKey) get() string {
	text, _ := k.text.Load().(string)
	return text
}

// obtain calls read, and if that fails again in the background, after a delay, until ctx ends. It returns once read has
// been called.
func (k *clusterKey) obtain(ctx context.Context, read func() (string, error), log *zap.Logger) {
	text, err := read()
	if err == nil {
		k.text.Store(text)
		return
	}
	log.Warn("encrypted clusters wait: the node has no key for them", zap.Error(err))
	go func() {
		for tries := 1; ; tries++ {
			select {
			case <-time.After(keyRetries.After(tries)):
			case <-ctx.Done():
				return
			}
			if text, err := read(); err == nil {
				k.text.Store(text)
				log.Info("the node has its key for encrypted clusters", zap.Int("tries", tries+1))
				return
			}
		}
	}()
}
