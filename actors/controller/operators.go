package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// operatorToken is the record of an operator's token in the store, under the token's hash.
type operatorToken struct {
	Name    string        `json:"name"`
	Role    fleetapi.Role `json:"role"`
	Expires time.Time     `json:"expires,omitzero"` // zero: never
}

// operators are the operators' tokens, from the watch of the store.
type operators struct {
	mu     sync.RWMutex
	byHash map[string]operatorToken
}

// isValid reports whether a token has not expired.
func (t operatorToken) isValid(now time.Time) bool {
	return t.Expires.IsZero() || now.Before(t.Expires)
}

func (o *operators) find(hash string) (operatorToken, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	t, known := o.byHash[hash]
	return t, known
}

// event applies the event of one key.
func (o *operators) event(e kv.Event, hash string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byHash == nil {
		o.byHash = map[string]operatorToken{}
	}
	var t operatorToken
	if e.Kind != kv.EventPut || json.Unmarshal(e.Entry.Value, &t) != nil {
		delete(o.byHash, hash) // an unreadable token grants nothing
		return
	}
	o.byHash[hash] = t
}

// Authenticate returns the operator of a token, by its hash. It looks in the store for a token that another replica
// created a moment ago.
func (c *Controller) Authenticate(ctx context.Context, hash string) (fleetapi.Caller, error) {
	t, known := c.d.operators.find(hash)
	if !known {
		e, err := c.d.Reader(ctx).Get(history.OperatorKey(hash))
		if err != nil {
			return fleetapi.Caller{}, fmt.Errorf("look up the token: %w", err)
		}
		if !e[0].Exists() || json.Unmarshal(e[0].Value, &t) != nil {
			return fleetapi.Caller{}, fleetapi.ErrNoToken
		}
	}
	if !t.isValid(c.d.Now()) {
		return fleetapi.Caller{}, fleetapi.ErrNoToken
	}
	return fleetapi.Caller{Name: t.Name, Role: t.Role}, nil
}

// Known returns the operator of a token that this replica knows, without reading the store.
func (c *Controller) Known(hash string) (fleetapi.Caller, bool) {
	t, known := c.d.operators.find(hash)
	if !known || !t.isValid(c.d.Now()) {
		return fleetapi.Caller{}, false
	}
	return fleetapi.Caller{Name: t.Name, Role: t.Role}, true
}

// readTokens reads all operators' tokens from the store.
func (c *Controller) readTokens(ctx context.Context) (map[kv.Key]operatorToken, error) {
	entries, err := c.d.Reader(ctx).All(history.InOperators, 0)
	if err != nil {
		return nil, fmt.Errorf("list operators: %w", err)
	}
	out := map[kv.Key]operatorToken{}
	for _, e := range entries {
		var t operatorToken
		if err := json.Unmarshal(e.Value, &t); err != nil {
			return nil, fmt.Errorf("read %s: %w", e.Key, err)
		}
		out[e.Key] = t
	}
	return out, nil
}

// Operators lists the operators' tokens.
func (c *Controller) Operators(ctx context.Context) ([]fleetapi.OperatorToken, error) {
	tokens, err := c.readTokens(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]fleetapi.OperatorToken, 0, len(tokens))
	for _, t := range tokens {
		one := fleetapi.OperatorToken{Name: t.Name, Role: t.Role}
		if !t.Expires.IsZero() {
			expires := t.Expires
			one.Expires = &expires
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b fleetapi.OperatorToken) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// AddOperator creates a token and returns its text, which is stored nowhere.
func (c *Controller) AddOperator(ctx context.Context, _ fleetapi.Caller, t fleetapi.OperatorToken) (string, error) {
	switch {
	case t.Name == "":
		return "", fmt.Errorf("add operator: %w: name: required", fleetapi.ErrRefused)
	case slices.Contains(reservedNames, t.Name):
		return "", fmt.Errorf("add operator: %w: name: %q is reserved: must not be %s", fleetapi.ErrRefused, t.Name,
			strings.Join(reservedNames, ", "))
	}
	guard, err := c.newGuard(ctx)
	if err != nil {
		return "", err
	}
	tokens, err := c.readTokens(ctx)
	if err != nil {
		return "", err
	}
	for _, other := range tokens {
		if other.Name == t.Name {
			return "", fmt.Errorf("add operator: %w: %q already has a token: remove it first", fleetapi.ErrRefused, t.Name)
		}
	}
	kept := operatorToken{Name: t.Name, Role: t.Role}
	if t.Expires != nil {
		kept.Expires = t.Expires.UTC()
	}
	text, hash, err := c.d.Issuer.NewOperatorToken(t.Name, string(t.Role), kept.Expires)
	if err != nil {
		return "", err
	}
	key := history.OperatorKey(hash)
	o, err := c.d.Commit(ctx, kv.Txn{Compares: []kv.Compare{kv.Absent(key), guard.same},
		Then: []kv.Op{kv.Put(key, storage.Encode(kept)), guard.move}})
	if err != nil {
		return "", fmt.Errorf("add operator: %w", err)
	}
	if !o.Succeeded {
		return "", errMoved
	}
	return text, nil
}

// RemoveOperator deletes all tokens of a name.
func (c *Controller) RemoveOperator(ctx context.Context, by fleetapi.Caller, name string) error {
	guard, err := c.newGuard(ctx)
	if err != nil {
		return err
	}
	tokens, err := c.readTokens(ctx)
	if err != nil {
		return err
	}
	txn := kv.Txn{Compares: []kv.Compare{guard.same}}
	admins := 0
	for k, t := range tokens {
		switch {
		case t.Name == name:
			txn.Then = append(txn.Then, kv.Delete(k))
		case t.Role == fleetapi.Admin && t.isValid(c.d.Now()):
			admins++
		}
	}
	switch {
	case txn.Then == nil:
		return &ops.NotFoundError{What: fmt.Sprintf("operator %q", name)}
	case admins == 0 && by.Role == fleetapi.Admin:
		return fmt.Errorf("remove operator: %w: %q is the last administrator: add another one first", fleetapi.ErrRefused,
			name)
	}
	txn.Then = append(txn.Then, guard.move)
	o, err := c.d.Commit(ctx, txn)
	if err != nil {
		return fmt.Errorf("remove operator: %w", err)
	}
	if !o.Succeeded {
		return errMoved
	}
	return nil
}

// reservedNames are the authors that the controller itself and offline administration write history as.
var reservedNames = []string{"controller", "local", storage.Migration.Name}

// operatorsGuard is a key that every change of the operators' tokens writes: of two concurrent changes based on the
// same list, one fails. It lies in the folder of elections, which no older replica follows.
type operatorsGuard struct {
	same kv.Compare
	move kv.Op
}

func (c *Controller) newGuard(ctx context.Context) (operatorsGuard, error) {
	key := history.ElectionKey("operators")
	e, err := c.d.Reader(ctx).Get(key)
	if err != nil {
		return operatorsGuard{}, fmt.Errorf("read operators: %w", err)
	}
	return operatorsGuard{kv.AtRevision(key, e[0].ModRevision), kv.Put(key, []byte(c.d.Replica))}, nil
}
