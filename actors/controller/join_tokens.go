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

// joinTokens are the names of open join tokens by their hash, as the watch of the store tells
// them: a join without a name is asked by anybody, so it must not read the store each time.
type joinTokens struct {
	mu     sync.Mutex
	byHash map[string]string
	hashes map[string]string // by name
	listed time.Time         // when the store was read for a token that is not known
}

// listAgain is the least time between two reads of the store for tokens that are not known.
const listAgain = time.Second

// event takes over one key.
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
	if open { // a used one too: its node may ask again for an answer that was lost
		o.byHash[t.Hash], o.hashes[name] = name, t.Hash
	}
}

// find finds a name by the hash of its token; look is whether the store may be read for it.
func (o *joinTokens) find(hash string, now time.Time) (name string, look bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if name = o.byHash[hash]; name != "" || now.Sub(o.listed) < listAgain {
		return name, false
	}
	o.listed = now
	return "", true
}

// KnowsToken says whether an open join token has a hash, as far as this replica has heard.
func (c *Controller) KnowsToken(hash string) bool {
	o := &c.d.joinTokens
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byHash[hash] != ""
}

// tokenName is the name that a token is for, "" for one that is not known. One that was made a
// moment ago is looked for in the store.
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
