package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

// joinTokens are the names of open join tokens by hash, from the watch of the store. Anybody can ask to join without a
// name, so a lookup must not read the store each time.
type joinTokens struct {
	mu     sync.Mutex
	byHash map[string]string
	hashes map[string]string // by name
	listed time.Time         // last read of the store for an unknown token
}

// listAgain is the minimum time between two reads of the store for unknown tokens.
const listAgain = time.Second

// event applies the event of one key.
func (o *joinTokens) event(e kv.Event, name string) {
	var t Token
	open := e.Kind == kv.EventPut && json.Unmarshal(e.Entry.Value, &t) == nil
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byHash == nil {
		o.byHash, o.hashes = map[string]string{}, map[string]string{}
	}
	if o.byHash[o.hashes[name]] == name {
		delete(o.byHash, o.hashes[name])
	}
	delete(o.hashes, name)
	if open { // a used one too: its node may ask again after a lost answer
		o.byHash[t.Hash], o.hashes[name] = name, t.Hash
	}
}

// find returns the name for a token's hash; look reports whether the caller may read the store for it.
func (o *joinTokens) find(hash string, now time.Time) (name string, look bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if name = o.byHash[hash]; name != "" || now.Sub(o.listed) < listAgain {
		return name, false
	}
	o.listed = now
	return "", true
}

// KnowsToken reports whether this replica knows a join token with a hash.
func (c *Controller) KnowsToken(hash string) bool {
	o := &c.d.joinTokens
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byHash[hash] != ""
}

// tokenName returns the name that a token is for, "" for an unknown token. It looks in the store for a token that
// another replica created a moment ago.
func (c *Controller) tokenName(ctx context.Context, token string) (string, error) {
	hash, err := c.d.Issuer.JoinTokenHash(token)
	if err != nil {
		return "", fmt.Errorf("join: %w", err)
	}
	name, look := c.d.joinTokens.find(hash, time.Now())
	if !look {
		return name, nil
	}
	entries, err := c.d.Reader(ctx).All(history.InTokens, 0)
	if err != nil {
		return "", fmt.Errorf("join: %w", err)
	}
	for _, e := range entries {
		var t Token
		if err := json.Unmarshal(e.Value, &t); err != nil {
			return "", fmt.Errorf("join: token %s: %w", e.Key, err)
		}
		if t.Hash == hash {
			return t.Name, nil
		}
	}
	return "", nil
}
