package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"edgespan/config/configdb"
	"edgespan/config/kv"
)

// lookUp finds the contents of writes that the store already has, in few reads.
func (p *planner) lookUp(entries []QueuedWrite) error {
	var names []string
	for _, e := range entries {
		if len(names) > kv.MaxOps && len(e.names()) > 1 {
			break // it belongs to another plan
		}
		names = append(names, e.names()...)
	}
	slices.Sort(names)
	return p.lookUpKeys(slices.Compact(names))
}

// names returns the names of the contents in a write.
func (e QueuedWrite) names() []string { return namesOf(e.Write) }

func namesOf(w Write) (out []string) {
	var v configdb.JSON
	switch w := w.(type) {
	case Put:
		v = w.Value
	case Bulk:
		for _, one := range w.Writes {
			out = append(out, namesOf(one)...)
		}
	}
	if v != nil {
		out = append(out, shaOf(v))
	}
	return out
}

// lookUpKeys looks up contents in the store.
func (p *planner) lookUpKeys(names []string) error {
	keys := make([]kv.Key, len(names))
	for i, sha := range names {
		keys[i] = blobKey(sha, 0)
	}
	for batch := range slices.Chunk(keys, getBatch) {
		entries, err := p.src.Get(batch...)
		if err != nil {
			return fmt.Errorf("plan: %w", err)
		}
		for i, e := range entries {
			p.stored[names[i]] = e.Exists()
		}
		names = names[len(batch):]
	}
	return nil
}

// getBatch is the number of chunks of contents read at once: 100 of 10 KB.
const getBatch = 100

// missingBlobs returns the operations that store the contents that are not stored.
func (p *planner) missingBlobs(names []string) ([]kv.Op, error) {
	var unknown []string
	for _, sha := range names {
		if _, known := p.stored[sha]; !known {
			unknown = append(unknown, sha)
		}
	}
	if err := p.lookUpKeys(unknown); err != nil {
		return nil, err
	}
	var ops []kv.Op
	for _, sha := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if !p.stored[sha] {
			ops = append(ops, blobOps(sha, p.fresh[sha])...)
		}
	}
	return ops, nil
}

// addWrite adds a write to the transaction if it fits.
func (p *planner) addWrite(j *writeCheck, record []byte, blobs []kv.Op) bool {
	request, ops := slices.Clone(p.order), maps.Clone(p.ops)
	for _, k := range append(slices.Clone(j.order), revisionKey(j.revision)) {
		if _, ok := ops[k]; !ok {
			request = append(request, k)
		}
		ops[k] = j.ops[k]
	}
	ops[revisionKey(j.revision)] = record
	before := *p
	p.order, p.ops, p.blobs = request, ops, slices.Concat(p.blobs, blobs)
	if fits(p.headTxn(p.s.at, j.s.head)) {
		return true
	}
	*p = before
	return false
}

func fits(t kv.Txn) bool { return len(t.Then) <= kv.MaxOps && t.Size() <= kv.MaxSize }

// headTxn returns the transaction that moves the head.
func (p *planner) headTxn(at kv.Revision, head headValue) kv.Txn {
	txn := headUnchanged(at)
	txn.Then = append(txn.Then, p.blobs...)
	for _, k := range p.order {
		if v := p.ops[k]; v == nil {
			txn.Then = append(txn.Then, kv.Delete(k))
		} else {
			txn.Then = append(txn.Then, kv.Put(k, v))
		}
	}
	txn.Then = append(txn.Then, kv.Put(HeadKey(), encode(head)))
	return txn
}

// partSize and partOps leave room in a transaction for a part, or for its operations.
const (
	partSize = kv.MaxSize / 2
	partOps  = kv.MaxOps - 8
)

// planLarge plans a write that does not fit into one transaction: first the contents, which are not visible yet; then,
// if the other keys are too many, these as parts of a set; and last the head, which makes the write visible.
func (p *planner) planLarge(j *writeCheck, record []byte, blobs []kv.Op) {
	p.plan.Txns = groupOps(blobs)
	small := *p
	small.blobs = nil
	if small.addWrite(j, record, nil) {
		p.plan.Txns = append(p.plan.Txns, small.headTxn(p.s.at, j.s.head))
		return
	}
	sum := sha256.Sum256(fmt.Appendf(record, " after %d", p.s.at))
	id := hex.EncodeToString(sum[:16])
	parts := map[int]setPart{}
	var puts []kv.Op
	size, part := 0, setPart{}
	for i, k := range j.order {
		op := setOp{k, j.ops[k]}
		size += 400 + 3*len(k) + len(op.Value)
		if part.Ops = append(part.Ops, op); i+1 == len(j.order) || len(part.Ops) == partOps || size > partSize/2 {
			puts = append(puts, kv.Put(setKey(id, len(parts)), encode(part)))
			parts[len(parts)] = part
			size, part = 0, setPart{}
		}
	}
	p.plan.Txns = append(p.plan.Txns, groupOps(puts)...)
	j.s.head.Set, j.s.head.Parts = id, len(parts)
	j.s.overlay = j.ops
	j.s.sets = maps.Clone(j.s.sets)
	j.s.sets[id] = parts
	txn := headUnchanged(p.s.at)
	txn.Then = append(txn.Then, kv.Put(revisionKey(j.revision), record), kv.Put(HeadKey(), encode(j.s.head)))
	p.plan.Txns = append(p.plan.Txns, txn)
}

// groupOps combines operations into transactions that are invisible to readers and need no order.
func groupOps(ops []kv.Op) []kv.Txn {
	var out []kv.Txn
	for _, op := range ops {
		if n := len(out); n > 0 {
			more := out[n-1]
			if more.Then = append(more.Then, op); fits(more) {
				out[n-1] = more
				continue
			}
		}
		out = append(out, kv.Txn{Then: []kv.Op{op}})
	}
	return out
}
