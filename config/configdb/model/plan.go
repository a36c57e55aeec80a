package model

import (
	"errors"
	"time"

	"edgespan/config/configdb"
	"edgespan/config/kv"
)

// QueuedWrite is a queued write.
type QueuedWrite struct {
	Write   Write
	Author  string
	Time    time.Time
	Message string
	// Own marks a node's write about itself: quotas apply, and its versions are kept for a limited time (Keep). Quota
	// limits the bytes of such uploads of all nodes of an environment; 0: no limit.
	Own   bool
	Quota int64
	// Stop returns an error once the caller no longer waits; validation then ends. nil: the caller always waits.
	Stop func() error
	// Blind marks a dry run by a caller who may not see secrets: its Result does not reveal whether a secret in it equals
	// the stored one.
	Blind bool
}

// Limits of validating the writes of one plan; the remaining writes wait for the next plan. So one caller's expensive
// writes delay another caller's by only one write at a time.
const (
	planMade   = 32 << 20 // bytes allocated
	planLooked = 64 << 20 // bytes read
)

// Result is the outcome of one write: Written is valid if Fault is nil.
type Result struct {
	Written Written
	Fault   *RequestError
}

// WritePlan holds the transactions for the first writes of a queue. Commit them in order until one does not succeed;
// the last operation of its Else reads HeadKey. If one does not succeed, no write of this plan took place: follow the
// store and plan them again. After an error of the store the last transaction may have been committed or not: it was
// if the record of a result's revision is that of the writer.
type WritePlan struct {
	// Results are those of the first entries, of at least one unless Forward comes first; the other entries wait for the
	// next plan.
	Results []Result
	// Txns is empty if no write changes anything; the results then hold for the state that planned them.
	Txns []kv.Txn
	// Records are the revisions that the plan creates.
	Records []Record

	next *State
}

// Next returns the state after all transactions; at is the store's revision of the last one.
func (p WritePlan) Next(at kv.Revision) *State {
	next := *p.next
	next.at = at
	return &next
}

// Unfinished reports that the newest write was too large for one transaction and not all of its keys are written yet.
// Readers already see it; until it is finished, Plan returns only the transactions of Forward.
func (s *State) Unfinished() bool { return s.head.Set != "" }

// Forward returns the transactions that finish an Unfinished write, to be committed in order. If one does not succeed,
// another replica was faster: follow the store.
func (s *State) Forward() []kv.Txn { return s.forward().Txns }

func (s *State) forward() WritePlan {
	if !s.Unfinished() {
		return WritePlan{next: s}
	}
	id := s.head.Set
	d := s.draft()
	d.s.head.Set, d.s.head.Parts = "", 0
	d.s.overlay = nil
	var plan WritePlan
	for i := range s.head.Parts {
		part, there := s.sets[id][i]
		if !there {
			continue // already written
		}
		txn := headUnchanged(s.at)
		txn.Then = append(txn.Then, kv.Delete(setKey(id, i)))
		for _, op := range part.Ops {
			if op.Value == nil {
				txn.Then = append(txn.Then, kv.Delete(op.Key))
			} else {
				txn.Then = append(txn.Then, kv.Put(op.Key, op.Value))
			}
		}
		plan.Txns = append(plan.Txns, txn)
	}
	last := headUnchanged(s.at)
	last.Then = append(last.Then, kv.Put(HeadKey(), encode(d.s.head)))
	plan.Txns = append(plan.Txns, last)
	plan.next = d.s
	return plan
}

// headUnchanged returns a transaction that succeeds only while the head is unchanged.
func headUnchanged(at kv.Revision) kv.Txn {
	return kv.Txn{Compares: []kv.Compare{kv.AtRevision(HeadKey(), at)}, Else: []kv.Op{kv.Get(HeadKey())}}
}

// planner combines writes into transactions.
type planner struct {
	s       *State // after the writes so far
	src     Source
	fresh   map[string]configdb.JSON
	records map[uint64]Record
	plan    WritePlan

	order  []kv.Key
	ops    map[kv.Key][]byte
	blobs  []kv.Op
	stored map[string]bool // whether the store has a content or the plan stores it

	made, looked int // by the writes so far
}

// Plan validates writes in order, each against the state after the writes before it, and gives each a revision of its
// own; refused writes are left out. Plan returns an error of the source or of Stop only if it concerns the first write.
func (s *State) Plan(entries []QueuedWrite, src Source) (WritePlan, error) {
	if s.Unfinished() {
		return s.forward(), nil
	}
	p := &planner{s: s, src: src, fresh: map[string]configdb.JSON{}, records: map[uint64]Record{},
		ops: map[kv.Key][]byte{}, stored: map[string]bool{}}
	if err := p.lookUp(entries); err != nil {
		return WritePlan{}, err
	}
	for _, e := range entries {
		more, err := p.add(e)
		if err != nil && len(p.plan.Results) == 0 {
			return WritePlan{}, err
		}
		if err != nil || !more || p.made > planMade || p.looked > planLooked {
			break // the others belong to the next plan
		}
	}
	if p.plan.next = p.s; len(p.plan.Records) > 0 && p.plan.Txns == nil {
		p.plan.Txns = []kv.Txn{p.headTxn(s.at, p.s.head)}
	}
	return p.plan, nil
}

// add validates one write and reports whether the plan can take more.
func (p *planner) add(e QueuedWrite) (bool, error) {
	j := p.s.newWriteCheck(p.src, p, e)
	err := j.checkAuthor(e)
	if err == nil && e.Stop != nil {
		err = e.Stop()
	}
	if err == nil {
		err = j.write(e.Write)
	}
	made, looked := j.m.Used()
	p.made, p.looked = p.made+made, p.looked+looked
	var f *RequestError
	switch {
	case errors.As(err, &f):
		p.plan.Results = append(p.plan.Results, Result{Fault: f})
		return true, nil
	case err != nil:
		return false, err
	}
	if e.Blind {
		j.hide()
	}
	j.written.Revision, j.written.Changed = p.s.head.Revision, len(j.written.Changes) > 0
	if !j.written.Changed {
		p.plan.Results = append(p.plan.Results, Result{Written: j.written})
		return true, nil
	}
	record := Record{j.revision, e.Time.UTC().Round(0), e.Author, e.Message, j.written.Changes, e.Own}
	plain := encode(record)
	text := packText(plain)
	if len(text) > MaxChanges || len(plain) > MaxRecord {
		f = tooLarge("write: its %d changes are too long (%d bytes): must be at most %d: use several writes",
			len(record.Changes),
			len(plain), MaxRecord)
		p.plan.Results = append(p.plan.Results, Result{Fault: f})
		return true, nil
	}
	j.written.Revision = j.revision
	blobs, err := p.missingBlobs(j.used)
	if err != nil {
		return false, err
	}
	if !p.addWrite(j, text, blobs) {
		if len(p.plan.Records) > 0 {
			return false, nil // it belongs to the next plan
		}
		p.planLarge(j, text, blobs)
	}
	for _, sha := range j.used {
		p.stored[sha] = true
	}
	p.plan.Results = append(p.plan.Results, Result{Written: j.written})
	p.plan.Records = append(p.plan.Records, record)
	p.records[j.revision] = record
	p.s = j.s
	return p.plan.Txns == nil, nil
}

// checkAuthor returns an error if the author or the message of a write is invalid.
func (wc *writeCheck) checkAuthor(e QueuedWrite) error {
	if e.Author == "" {
		return invalid("author: required")
	}
	if len(e.Message) > maxMessage || len(e.Author) > maxMessage {
		return invalid("message: too long (%d bytes): must be at most %d", len(e.Message), maxMessage)
	}
	return nil
}

const maxMessage = 4 << 10
