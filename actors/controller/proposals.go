package controller

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller/nodes"
	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// A proposal is what a node reports of hardware that is unknown here. It would be the base of all nodes of that board,
// so it has no effect until an operator accepts it. A node has one proposal at a time; the proposals of a board and of
// all boards together are bounded.
const (
	maxProposals     = 64
	maxOfBoard       = 3
	proposalBytes    = 512 << 10
	allProposalBytes = 16 << 20
	maxBoardLength   = 200
)

// proposal is what a node reported of its board; By is set once an operator has accepted it.
type proposal struct {
	Board string          `json:"board"`
	Node  string          `json:"node"` // UUID
	At    time.Time       `json:"at"`
	By    string          `json:"by,omitempty"` // the operator who accepted it
	Data  json.RawMessage `json:"data"`         // a nodeproto.BaseConfig
}

// savedProposal marks a proposal's writes for the saver; the fleet actor stores nothing else.
const savedProposal = 0

// hasProposals reports whether an operator has enough proposals of a board to decide on, so that no node is asked
// again.
func (a *fleetActor) hasProposals(id, board string) bool {
	n := 0
	for other, p := range a.proposals {
		if p.Board == board {
			n++
			if other == id {
				return true
			}
		}
	}
	return n >= maxOfBoard
}

// learn keeps a node's proposal for the lifetime of this replica, and stores it.
func (a *fleetActor) learn(m nodes.Learnt) {
	if !a.queries.TakeAnswer(m.ID, m.Board) {
		return
	}
	if why := a.refuseProposal(m); why != nil {
		a.d.Log.Warn("base config of a node", zap.String("node", m.ID),
			zap.String("board", fmt.Sprintf("%.*s", maxBoardLength, m.Board)), zap.Error(why))
		return
	}
	a.proposed[m.ID] = storage.Encode(proposal{Board: m.Board, Node: m.ID, At: a.d.Now().UTC(), Data: m.Data})
	a.d.Log.Info("a node proposes the base config of its board: accept it with edgespan boards accept",
		zap.String("node", m.ID),
		zap.String("board", m.Board))
	a.propose(m.ID)
}

// propose stores the proposal of a node of this replica; the watch delivers it to the fleet. Without a lease it waits
// for the next one.
func (a *fleetActor) propose(id string) {
	if lease := a.d.LeaseID(); lease != 0 {
		a.d.Saver.Add(storage.Save{Op: kv.PutLeased(history.ProposedKey(id), a.proposed[id], lease), Of: a.d.dir.budgetOf(id),
			To: a.self, What: savedProposal})
	}
}

// handleProposalSaved drops a proposal that could not be stored: the node is asked again.
func (a *fleetActor) handleProposalSaved(m storage.Saved) {
	if m.Err == nil || errors.Is(m.Err, kv.ErrNoLease) { // the next lease stores it again
		return
	}
	id := history.KeyTexts(m.Key)[0]
	a.d.Log.Error("store a proposal", zap.String("node", id), zap.Error(m.Err))
	if _, stored := a.proposals[id]; !stored {
		delete(a.proposed, id)
	}
}

// refuseProposal returns why a proposal is not kept.
func (a *fleetActor) refuseProposal(m nodes.Learnt) error {
	if len(m.Board) > maxBoardLength {
		return fmt.Errorf("board: has %d bytes: must have at most %d", len(m.Board), maxBoardLength)
	}
	if len(m.Data) > proposalBytes {
		return fmt.Errorf("has %d bytes: must have at most %d", len(m.Data), proposalBytes)
	}
	others, total := 0, len(m.Data)
	for id, p := range a.proposals {
		if id != m.ID {
			others, total = others+1, total+len(p.Data)
		}
	}
	for id, value := range a.proposed { // those not stored yet
		if _, stored := a.proposals[id]; !stored && id != m.ID {
			others, total = others+1, total+len(value)
		}
	}
	if others >= maxProposals || total > allProposalBytes {
		return fmt.Errorf("%d proposals are already pending: accept or reject them", others)
	}
	if _, err := fleet.ParseBase(m.Data); err != nil { // last, so that a proposal that is refused anyway costs no parsing
		return err
	}
	if !json.Valid(m.Data) {
		return errors.New("must be JSON")
	}
	return nil
}

// setProposed records a stored proposal.
func (a *fleetActor) setProposed(e kv.Event, id string) {
	setValue(a, e, a.proposals, id)
	if e.Kind != kv.EventPut {
		delete(a.proposed, id)
	}
}

// setAccepted records what was accepted for a board.
func (a *fleetActor) setAccepted(e kv.Event, board string) {
	delete(a.learnt, board)
	if e.Kind != kv.EventPut {
		return
	}
	var p proposal
	err := json.Unmarshal(e.Entry.Value, &p)
	if err == nil {
		var b *fleet.LearntBase
		if b, err = fleet.ParseBase(p.Data); err == nil {
			a.learnt[board] = &baseConfig{b, p}
		}
	}
	if err != nil {
		a.d.Log.Error("read a key of the store", zap.String("key", string(e.Entry.Key)), zap.Error(err))
	}
}

// listHardware asks the fleet for all proposals and all accepted boards.
type listHardware struct{}

func (a *fleetActor) listHardware() []proposal {
	out := slices.Collect(maps.Values(a.proposals))
	for _, b := range a.learnt {
		out = append(out, b.proposal)
	}
	slices.SortFunc(out, func(x, y proposal) int {
		return cmp.Or(cmp.Compare(x.Board, y.Board), cmp.Compare(y.By, x.By), cmp.Compare(x.Node, y.Node))
	})
	return out
}

func (c *Controller) hardware(ctx context.Context) ([]proposal, error) {
	a, err := c.d.Request(ctx, c.d.fleet, listHardware{})
	if err != nil {
		return nil, err
	}
	return a.([]proposal), nil
}

// nameOf returns a node's name, or its id once it is gone.
func (c *Controller) nameOf(id string) string {
	if s := c.d.dir.node(id); s != nil {
		name, _ := s.Names()
		return name
	}
	return id
}

// Hardware lists proposals for unknown boards, and accepted boards.
func (c *Controller) Hardware(ctx context.Context) ([]fleetapi.Hardware, error) {
	all, err := c.hardware(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]fleetapi.Hardware, 0, len(all))
	for _, p := range all {
		h := fleetapi.Hardware{Board: p.Board, Node: c.nameOf(p.Node), At: p.At, By: p.By, Digest: c.digestOf(p),
			Bytes: len(p.Data), Base: []string{}, Hardware: []string{}}
		if b, err := fleet.ParseBase(p.Data); err == nil {
			h.Base, h.Hardware = slices.Sorted(maps.Keys(b.Base)), slices.Sorted(maps.Keys(b.Hardware))
			h.Metadata = len(b.Metadata)
		}
		out = append(out, h)
	}
	return out, nil
}

// proposalOf returns a node's proposal for a board; without a node it must be the only one.
func (c *Controller) proposalOf(ctx context.Context, board, node string) (proposal, error) {
	all, err := c.hardware(ctx)
	if err != nil {
		return proposal{}, err
	}
	all = slices.DeleteFunc(all,
		func(p proposal) bool { return p.Board != board || p.By != "" || node != "" && c.nameOf(p.Node) != node })
	switch len(all) {
	case 0:
		return proposal{}, &ops.NotFoundError{What: "a proposal for board " + config.Quote(board),
			Allowed: "'edgespan boards list' lists them"}
	case 1:
		return all[0], nil
	}
	return proposal{}, fmt.Errorf("board %s: %w: proposals of %d nodes: choose one with --node", config.Quote(board),
		fleetapi.ErrRefused, len(all))
}

// HardwareConfig returns a proposal, or, without a node and a proposal, what was accepted for the board.
func (c *Controller) HardwareConfig(ctx context.Context, board, node string, reveal bool) (ops.DocumentAnswer, error) {
	p, err := c.proposalOf(ctx, board, node)
	if err != nil && node == "" {
		all, fault := c.hardware(ctx)
		if i := slices.IndexFunc(all, func(p proposal) bool { return p.Board == board && p.By != "" }); fault == nil &&
			i >= 0 {
			p, err = all[i], nil
		}
	}
	if err != nil {
		return ops.DocumentAnswer{}, err
	}
	doc, faults := config.ParseBounded(p.Data)
	if faults != nil {
		return ops.DocumentAnswer{}, faults
	}
	return read(ctx, c, func(w *ops.Snapshot) (ops.DocumentAnswer, error) {
		d, err := w.Proposed(doc, reveal)
		d.Digest = c.digestOf(p)
		return d, err
	})
}

// digestOf identifies a proposal by everything that the node reported, including masked values. It is keyed: no node
// can construct two proposals with one digest, and no reader can guess a masked value from it.
func (c *Controller) digestOf(p proposal) string {
	mac := hmac.New(sha256.New, c.d.MaskKey)
	mac.Write(fmt.Appendf(nil, "%q %q ", p.Board, p.Node))
	mac.Write(p.Data)
	return hex.EncodeToString(mac.Sum(nil))
}

// AcceptHardware makes a proposal the base of all nodes of its board, until it is forgotten. The digest must match: the
// node may have replaced its proposal since the operator looked.
func (c *Controller) AcceptHardware(ctx context.Context, by fleetapi.Caller, board, node, digest string) error {
	p, err := c.proposalOf(ctx, board, node)
	if err != nil {
		return err
	}
	if !hmac.Equal([]byte(c.digestOf(p)), []byte(digest)) {
		return fmt.Errorf("board %s: %w: the proposal has changed, its digest is not %.80q: run 'edgespan boards show' again",
			config.Quote(board), fleetapi.ErrRefused, digest)
	}
	if err := checkReadable(by, p); err != nil {
		return err
	}
	if err := c.checkUnmasks(ctx, by, board, p.Data); err != nil {
		return err
	}
	key := history.ProposedKey(p.Node)
	there := kv.HasValue(key, storage.Encode(p)) // exactly the proposal that was checked
	p.By, p.At = storage.Author(by), c.d.Now().UTC()
	o, err := c.d.Commit(ctx, kv.Txn{Compares: []kv.Compare{there},
		Then: []kv.Op{kv.Put(history.AcceptedKey(board), storage.Encode(p)), kv.Delete(key)}})
	if err == nil && !o.Succeeded {
		err = errMoved
	}
	if err != nil {
		return fmt.Errorf("accept the hardware of board %s: %w", config.Quote(board), err)
	}
	return nil
}

// RejectHardware drops one node's proposal for a board, or all of them. The nodes are asked again.
func (c *Controller) RejectHardware(ctx context.Context, _ fleetapi.Caller, board, node string) error {
	all, err := c.hardware(ctx)
	if err != nil {
		return err
	}
	var txn kv.Txn
	for _, p := range all {
		if p.Board == board && p.By == "" && (node == "" || c.nameOf(p.Node) == node) {
			txn.Then = append(txn.Then, kv.Delete(history.ProposedKey(p.Node)))
		}
	}
	if txn.Then == nil {
		return &ops.NotFoundError{What: "a proposal for board " + config.Quote(board),
			Allowed: "'edgespan boards list' lists them"}
	}
	_, err = c.d.Commit(ctx, txn)
	return err
}

// ForgetHardware withdraws what was accepted for a board: its hardware is unknown again.
func (c *Controller) ForgetHardware(ctx context.Context, by fleetapi.Caller, board string) error {
	key := history.AcceptedKey(board)
	if err := key.Check(); err != nil {
		return fmt.Errorf("forget hardware: %w: %w", fleetapi.ErrRefused, err)
	}
	if err := c.checkUnmasks(ctx, by, board, nil); err != nil {
		return err
	}
	o, err := c.d.Commit(ctx, kv.Txn{Compares: []kv.Compare{kv.Exists(key)}, Then: []kv.Op{kv.Delete(key)}})
	if err == nil && !o.Succeeded {
		return &ops.NotFoundError{What: "accepted hardware of board " + config.Quote(board)}
	}
	return err
}

// checkUnmasks refuses a caller that is not an admin if changing what is accepted for a board would reveal a value that
// the board's metadata marks as secret.
func (c *Controller) checkUnmasks(ctx context.Context, by fleetapi.Caller, board string, next json.RawMessage) error {
	if by.Role.Includes(fleetapi.Admin) {
		return nil
	}
	e, err := c.d.Reader(ctx).Get(history.AcceptedKey(board))
	if err != nil {
		return fmt.Errorf("accepted hardware of board %s: %w", config.Quote(board), err)
	}
	if !e[0].Exists() {
		return nil
	}
	var was proposal
	if json.Unmarshal(e[0].Value, &was) != nil {
		return nil // an unreadable one has no effect
	}
	still := secretsOf(next)
	lost := slices.DeleteFunc(secretsOf(was.Data), func(path string) bool {
		if slices.Contains(still, path) {
			return true
		}
		if c.d.Metadata == nil {
			return false
		}
		at, err := config.ParsePath(path)
		entry, _ := c.d.Metadata.Entry(at)
		return err == nil && entry.Secret
	})
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("board %s: %w %q: it calls %s secret, which would be shown: must be %s",
		config.Quote(board), fleetapi.ErrRole, by.Role, config.Truncate(strings.Join(lost, ", "), 200), fleetapi.Admin)
}
