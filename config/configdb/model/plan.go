package model

import (
	"errors"
	"time"

	"edgespan/config/configdb"
	"edgespan/config/kv"
)

// Pending is a write that waits.
type Pending struct {
	Write   Write
	Author  string
	Time    time.Time
	Message string
	// Own is a node's write of itself: it is held to quotas, and what it makes is kept for a time (Keep). Quota is the
	// most bytes that all nodes of an environment may have of themselves; 0: no bound.
	Own   bool
	Quota int64
	// Stop says why nobody waits for it any more, and its judgement ends; nil: somebody does.
	Stop func() error
	// Blind is a write that is only tried, by one who may not see secrets: its Result does not tell whether a secret that
	// it brings is the stored one.
	Blind bool
}

// What the judgement of one plan's writes may cost together until the others wait for the next plan, so that one
// caller's costly writes are in the way of another's only one at a time.
const (
	planMade   = 32 << 20 // bytes made
	planLooked = 64 << 20 // bytes looked at
)

// Result is what came of one write: Fault is nil if Written says it.
type Result struct {
	Written Written
	Fault   *Fault
}

// Plan is what is to be done for the first writes of a queue: transactions, to be carried out in
// their order until one does not succeed. The last operation of Else gets HeadKey. Then nothing of this plan's
// writes took place: follow the store and plan them again. An error of the store leaves open whether the
// last one took place: so says RevisionKey of the results' revisions, if the record there is that of the writer.
type Plan struct {
	// Results are those of the first of the entries, at least of one unless Forward is to be done
	// before; the others wait for the next plan.
	Results []Result
	// Txns are none if no write changes anything: the results hold for the state that was asked.
	Txns []kv.Txn
	// Records are the revisions that the plan makes.
	Records []Record

	next *State
}

// Next is the state once all transactions are done; at is the revision of the last one's outcome.
func (p Plan) Next(at kv.Revision) *State {
	next := *p.next
	next.at = at
	return &next
}

// Unfinished says that the newest write is too large for a transaction and not in its place yet. It
// counts already for all who read; Plan plans nothing but Forward before it is.
func (s *State) Unfinished() bool { return s.head.Set != "" }

// Forward are the transactions that bring the newest write into its place, if Unfinished, to be carried out in
// their order. Where one does not succeed, somebody else was faster: follow the store.
func (s *State) Forward() []kv.Txn { return s.forward().Txns }

func (s *State) forward() Plan {
	if !s.Unfinished() {
		return Plan{next: s}
	}
	id := s.head.Set
	d := s.draft()
	d.s.head.Set, d.s.head.Parts = "", 0
	d.s.overlay = nil
	var plan Plan
	for i := range s.head.Parts {
		part, there := s.sets[id][i]
		if !there {
			continue // in its place
		}
		txn := moving(s.at)
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
	last := moving(s.at)
	last.Then = append(last.Then, kv.Put(HeadKey(), encode(d.s.head)))
	plan.Txns = append(plan.Txns, last)
	plan.next = d.s
	return plan
}

// moving is a transaction that takes place while the head is what it was.
func moving(at kv.Revision) kv.Txn {
	return kv.Txn{Compares: []kv.Compare{kv.At(HeadKey(), at)}, Else: []kv.Op{kv.Get(HeadKey())}}
}

// planner puts writes together.
type planner struct {
	s       *State // after the writes so far
	src     Source
	fresh   map[string]configdb.JSON
	records map[uint64]Record
	plan    Plan

	order  []kv.Key
	ops    map[kv.Key][]byte
	blobs  []kv.Op
	stored map[string]bool // contents that are in the store, or that the plan stores; false if not

	made, looked int // by the writes so far
}

// Plan judges writes one after the other, each on what those before it leave behind, each a revision of its
// own; one that is refused takes no part. An error is of the source, or of Stop, for the first of them.
func (s *State) Plan(entries []Pending, src Source) (Plan, error) {
	if s.Unfinished() {
		return s.forward(), nil
	}
	p := &planner{s: s, src: src, fresh: map[string]configdb.JSON{}, records: map[uint64]Record{},
		ops: map[kv.Key][]byte{}, stored: map[string]bool{}}
	if err := p.lookUp(entries); err != nil {
		return Plan{}, err
	}
	for _, e := range entries {
		more, err := p.add(e)
		if err != nil && len(p.plan.Results) == 0 {
			return Plan{}, err
		}
		if err != nil || !more || p.made > planMade || p.looked > planLooked {
			break // the others are the next plan's
		}
	}
	if p.plan.next = p.s; len(p.plan.Records) > 0 && p.plan.Txns == nil {
		p.plan.Txns = []kv.Txn{p.last(s.at, p.s.head)}
	}
	return p.plan, nil
}

// add judges one write. It says whether more may come.
func (p *planner) add(e Pending) (bool, error) {
	j := p.s.newWriteCheck(p.src, p, e)
	err := j.signed(e)
	if err == nil && e.Stop != nil {
		err = e.Stop()
	}
	if err == nil {
		err = j.write(e.Write)
	}
	made, looked := j.m.Used()
	p.made, p.looked = p.made+made, p.looked+looked
	var f *Fault
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
	blobs, err := p.missing(j.used)
	if err != nil {
		return false, err
	}
	if !p.addWrite(j, text, blobs) {
		if len(p.plan.Records) > 0 {
			return false, nil // the next plan's
		}
		p.large(j, text, blobs)
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

// signed says what is wrong with how a write is signed.
func (j *writeCheck) signed(e Pending) error {
	if e.Author == "" {
		return invalid("author: required")
	}
	if len(e.Message) > maxMessage || len(e.Author) > maxMessage {
		return invalid("message: too long (%d bytes): must be at most %d", len(e.Message), maxMessage)
	}
	return nil
}

const maxMessage = 4 << 10
