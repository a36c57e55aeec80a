package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/actors/controller/nodes"
	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// maxTries is how often a transaction on a few keys is tried.
const maxTries = 10

// errMoved reports that concurrent writers changed the keys of a transaction at every try.
var errMoved = fmt.Errorf("%w: concurrent write to the same key: try again", fleetapi.ErrBusy)

// Join spends a token and binds a node to its name, in one transaction.
func (c *Controller) Join(ctx context.Context, j nodeproto.Join) (nodeproto.Joined, error) {
	if j.Name == "" {
		var err error
		if j.Name, err = c.tokenName(ctx, j.Token); err != nil {
			return nodeproto.Joined{}, err
		}
	}
	for range maxTries {
		joined, err := c.join(ctx, j)
		if err != nil {
			return nodeproto.Joined{}, err
		}
		if joined == nil {
			continue
		}
		if joined.Joining != "" { // this replica's revocations must know the join before the node connects
			_, err = c.d.Request(ctx, c.d.fleet, admit{j.Node, joined.Joining})
		}
		return *joined, err
	}
	return nodeproto.Joined{}, errMoved
}

// joinKeys are the keys that a join reads and may write: token, name, node, last push, revocation.
func joinKeys(j nodeproto.Join) []kv.Key {
	return []kv.Key{
		history.TokenKey(j.Name), history.NameKey(j.Name), history.NodeKey(j.Node), history.PushKey(j.Node),
		history.RevokedKey(j.Node),
	}
}

// join tries once. It returns nil without an error if a concurrent write changed the keys.
func (c *Controller) join(ctx context.Context, j nodeproto.Join) (*nodeproto.Joined, error) {
	r, now := c.d.Reader(ctx), c.d.Now()
	if j.Name == "" {
		_, err := c.d.Issuer.Redeem(now, Token{}, j) // Redeem returns the error for an unknown token
		return nil, err
	}
	keys := joinKeys(j)
	e, err := r.Get(keys...)
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	var t Token
	var m history.JoinedNode
	var was Revocation
	if err := errors.Join(decodeEntry(e[0], &t), decodeEntry(e[2], &m), decodeEntry(e[4], &was)); err != nil {
		return nil, fmt.Errorf("join %q as node %s: %w", j.Name, j.Node, err)
	}
	used, err := c.d.Issuer.Redeem(now, t, j)
	if err != nil {
		return nil, err
	}
	if e[1].Exists() && string(e[1].Value) != j.Node {
		return nil, fmt.Errorf("join: %w: another node has the name %q: run 'edgespan nodes replace' to replace it",
			fleetapi.ErrRefused, j.Name)
	}
	joined := nodeproto.Joined{Name: j.Name}
	if e[2].Exists() {
		if m.Name != j.Name {
			return nil, fmt.Errorf("join: %w: node %s already joined as %q: run 'edgespan nodes forget' to rename it",
				fleetapi.ErrRefused, j.Node, m.Name)
		}
		if t.Used != nil {
			joined.Joining = was.Joining
			return &joined, nil // a repeated request: already bound, it gets its certificate again
		}
	}
	if !e[2].Exists() {
		m = history.JoinedNode{ID: j.Node, Name: j.Name, Joined: now.UTC()}
	}
	spent, member := kv.Put(keys[0], storage.Encode(used)), kv.Put(keys[2], storage.Encode(m))
	txn := kv.Txn{Then: []kv.Op{spent, kv.Put(keys[1], []byte(j.Node)), member}}
	if e[4].Exists() { // older certificates stay revoked: their keys may be in other hands
		was.Joining = uuid.NewString()
		joined.Joining = was.Joining
		txn.Then = append(txn.Then, kv.Put(keys[4], storage.Encode(was)))
	}
	if e[3].Exists() && !e[2].Exists() {
		txn.Then = append(txn.Then, c.d.rejoinOps(j.Node, e[3], now)...)
	}
	for i, k := range keys {
		txn.Compares = append(txn.Compares, kv.AtRevision(k, e[i].ModRevision))
	}
	switch o, err := c.d.Commit(ctx, txn); {
	case err != nil:
		return nil, fmt.Errorf("join: %w", err)
	case !o.Succeeded:
		return nil, nil
	}
	return &joined, nil
}

// decodeEntry decodes the value of a key into v; an absent key leaves v unchanged.
func decodeEntry(e kv.Entry, v any) error {
	if !e.Exists() {
		return nil
	}
	if err := json.Unmarshal(e.Value, v); err != nil {
		return fmt.Errorf("read %s: %w", e.Key, err)
	}
	return nil
}

// rejoinOps resets the stored state of a forgotten node that joins again. If part of it is unreadable, the original
// is kept under DamagedKey.
func (d *deps) rejoinOps(id string, old kv.Entry, now time.Time) []kv.Op {
	memory, whole := fleet.RejoinMemory(old.Value, now)
	ops := []kv.Op{kv.Put(old.Key, storage.Encode(memory))}
	if !whole {
		d.Log.Error("cannot read all stored data of a node that joins again: keeping all of it, using what is readable",
			zap.String("node", id), zap.String("key", string(history.DamagedKey(id))))
		ops = append(ops, kv.Put(history.DamagedKey(id), old.Value))
	}
	return ops
}

// inviteLife is the default validity of a join token.
const inviteLife = 24 * time.Hour

// Invite creates a join token for one name; a life of 0 means inviteLife. With replace, it first forgets the node that
// has the name.
func (c *Controller) Invite(ctx context.Context, by fleetapi.Caller, node string, life time.Duration,
	replace bool) (fleetapi.Invitation, error) {
	if node == "" || life < 0 {
		return fleetapi.Invitation{},
			fmt.Errorf("invite %q for %v: %w: must be a name and a validity of more than 0s", node, life, fleetapi.ErrRefused)
	}
	if life == 0 {
		life = inviteLife
	}
	if err := history.NameKey(node).Check(); err != nil {
		return fleetapi.Invitation{}, fmt.Errorf("invite: %w: %w", fleetapi.ErrRefused, err)
	}
	now := c.d.Now()
	text, hash, err := c.d.Issuer.NewJoinToken(node, now.Add(life))
	if err != nil {
		return fleetapi.Invitation{}, err
	}
	t := Token{Token: history.Token{Name: node, Hash: hash, Author: storage.Author(by), Created: now.UTC(),
		Expires: now.Add(life).UTC()}}
	for range maxTries {
		e, err := c.d.Reader(ctx).Get(history.NameKey(node))
		if err != nil {
			return fleetapi.Invitation{}, fmt.Errorf("invite: %w", err)
		}
		txn := kv.Txn{Compares: []kv.Compare{kv.AtRevision(e[0].Key, e[0].ModRevision)},
			Then: []kv.Op{kv.Put(history.TokenKey(node), storage.Encode(t))}}
		if e[0].Exists() {
			if !replace {
				return fleetapi.Invitation{},
					fmt.Errorf("invite: %w: %q already joined: run 'edgespan nodes replace' to revoke its certificate",
						fleetapi.ErrRefused, node)
			}
			txn.Then = append(txn.Then, forget(string(e[0].Value), node, "replaced by "+storage.Author(by), now)...)
		}
		o, err := c.d.Commit(ctx, txn)
		if err != nil {
			return fleetapi.Invitation{}, fmt.Errorf("invite: %w", err)
		}
		if o.Succeeded {
			return fleetapi.Invitation{
				Node: node, Token: text, CA: c.d.Issuer.Pin(), Expires: t.Expires,
				Command: fmt.Sprintf("edgespan join --controller %s --token %s --ca-sha256 %s --name %s", c.d.NodeLink, text,
					c.d.Issuer.Pin(), shellQuote(node)),
			}, nil
		}
	}
	return fleetapi.Invitation{}, errMoved
}

// forget returns the operations that revoke a node's certificates and free its name. Its counters remain, so that its
// generations never repeat if it comes back.
func forget(id, name, why string, now time.Time) []kv.Op {
	return []kv.Op{
		kv.Put(history.RevokedKey(id), storage.Encode(Revocation{Node: id, At: now.UTC(), Reason: why})),
		kv.Delete(history.NodeKey(id)), kv.Delete(history.NameKey(name)), kv.Delete(history.UnderlayKey(id)),
		kv.Delete(history.BisectKey(id)),
	}
}

// forget forgets a node; its certificates are revoked. Of a node that has not joined, it withdraws the invitation.
func (d *deps) forget(ctx context.Context, by fleetapi.Caller, s *nodes.Handle) error {
	for range maxTries {
		name, id := s.Names()
		txn := kv.Txn{
			Compares: []kv.Compare{kv.HasValue(history.NameKey(name), []byte(id)), kv.Exists(history.NodeKey(id))},
			Then: append(forget(id, name, "forgotten by "+storage.Author(by), d.Now()),
				kv.Delete(history.TokenKey(name))),
		}
		if id == "" {
			e, err := d.Reader(ctx).Get(history.TokenKey(name))
			switch {
			case err != nil:
				return fmt.Errorf("forget %q: %w", name, err)
			case !e[0].Exists():
				return fmt.Errorf("forget %q: %w: neither joined nor invited", name, fleetapi.ErrRefused)
			}
			txn = kv.Txn{Compares: []kv.Compare{kv.Absent(history.NameKey(name)), kv.AtRevision(e[0].Key, e[0].ModRevision)},
				Then: []kv.Op{kv.Delete(history.TokenKey(name))}}
		}
		o, err := d.Commit(ctx, txn)
		if err != nil {
			return fmt.Errorf("forget %q: %w", name, err)
		}
		if o.Succeeded {
			return nil
		}
		d.Pause(10 * time.Millisecond) // it joined or was renamed: the fleet learns it
	}
	return errMoved
}

// shellQuote quotes a word for a shell.
func shellQuote(s string) string {
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.') {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return s
}
