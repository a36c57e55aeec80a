package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"edgespan/config/kv"
)

// pageEntries is the number of entries in one answer of etcd: a long list is read in several pages, all at one
// revision.
const pageEntries = 500

// attempts is how often a list at the current revision starts again after a compaction overtook it.
const attempts = 3

func (s *Store) path(k kv.Key) string { return s.keys() + string(k) }

func (s *Store) entry(e *mvccpb.KeyValue) kv.Entry {
	out := kv.Entry{
		Key: s.key(e.Key), ModRevision: kv.Revision(e.ModRevision), Version: uint64(e.Version), Lease: kv.LeaseID(e.Lease),
	}
	if len(e.Value) > 0 {
		out.Value = e.Value
	}
	return out
}

func (s *Store) key(path []byte) kv.Key { return kv.Key(path[len(s.keys()):]) }

func (s *Store) Get(ctx context.Context, key kv.Key) (kv.Entry, kv.Revision, error) {
	if err := key.Check(); err != nil {
		return kv.Entry{}, 0, err
	}
	if err := s.ready(ctx); err != nil {
		return kv.Entry{}, 0, err
	}
	out, err := s.client.Get(ctx, s.path(key))
	if err != nil {
		return kv.Entry{}, 0, fmt.Errorf("get %q: %w", key, s.meaning(ctx, err))
	}
	e := kv.Entry{Key: key}
	if len(out.Kvs) > 0 {
		e = s.entry(out.Kvs[0])
	}
	return e, kv.Revision(out.Header.Revision), nil
}

func (s *Store) List(ctx context.Context, p kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	if err := o.Check(p); err != nil {
		return kv.Page{}, err
	}
	if err := s.ready(ctx); err != nil {
		return kv.Page{}, err
	}
	for n := 1; ; n++ {
		page, err := s.list(ctx, p, o)
		if errors.Is(err, rpctypes.ErrCompacted) && o.At == 0 && n < attempts {
			continue
		}
		if err != nil {
			return kv.Page{}, fmt.Errorf("list below %q: %w", p, s.meaning(ctx, err))
		}
		return page, nil
	}
}

func (s *Store) list(ctx context.Context, p kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	page := kv.Page{Revision: o.At}
	from := s.keys() + string(p)
	end := clientv3.GetPrefixRangeEnd(from)
	if o.After != "" {
		from = s.path(o.After) + "\x00"
	}
	for {
		limit := pageEntries
		if o.Limit > 0 {
			limit = min(limit, o.Limit-len(page.Entries))
		}
		how := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(int64(limit)),
			clientv3.WithRev(int64(page.Revision))}
		if o.Keys {
			how = append(how, clientv3.WithKeysOnly())
		}
		out, err := s.client.Get(ctx, from, how...)
		if err != nil {
			return kv.Page{}, err
		}
		if page.Revision == 0 {
			page.Revision = kv.Revision(out.Header.Revision)
		}
		for _, e := range out.Kvs {
			page.Entries = append(page.Entries, s.entry(e))
		}
		if page.More = out.More; !out.More || len(page.Entries) == o.Limit {
			return page, nil
		}
		from = string(out.Kvs[len(out.Kvs)-1].Key) + "\x00"
	}
}

func (s *Store) Commit(ctx context.Context, txn kv.Txn) (kv.TxnResult, error) {
	if err := txn.Check(); err != nil {
		return kv.TxnResult{}, err
	}
	if err := s.ready(ctx); err != nil {
		return kv.TxnResult{}, err
	}
	then, otherwise := s.ops(txn.Then), s.ops(txn.Else)
	if len(then)+len(otherwise) == 0 {
		// Without this, etcd lets any member answer, even one that lags: the compared values and the revision could be old.
		then = []clientv3.Op{clientv3.OpGet(s.keys(), clientv3.WithCountOnly())}
		otherwise = then
	}
	out, err := s.commit(ctx, clientv3.OpTxn(s.compares(txn.Compares), then, otherwise), onlyReads(txn.Then, txn.Else))
	if err != nil {
		return kv.TxnResult{}, fmt.Errorf("commit: %w", s.meaning(ctx, err))
	}
	done := kv.TxnResult{Succeeded: out.Succeeded, Revision: kv.Revision(out.Header.Revision)}
	ops := txn.Then
	if !out.Succeeded {
		ops = txn.Else
	}
	if needsSpace(ops) {
		s.noteSpace()
	}
	for i, answer := range out.Responses[:len(ops)] {
		var result kv.Result
		switch ops[i].Kind {
		case kv.OpGet:
			result.Entry = kv.Entry{Key: ops[i].Key}
			if found := answer.GetResponseRange().Kvs; len(found) > 0 {
				result.Entry = s.entry(found[0])
			}
		case kv.OpDelete, kv.OpDeletePrefix:
			result.Deleted = int(answer.GetResponseDeleteRange().Deleted)
		case kv.OpPut:
		}
		done.Results = append(done.Results, result)
	}
	return done, nil
}

// commit commits a transaction.
func (s *Store) commit(ctx context.Context, txn clientv3.Op, reads bool) (*clientv3.TxnResponse, error) {
	var out clientv3.OpResponse
	err := s.led(ctx, reads, func(ctx context.Context) (err error) {
		out, err = s.client.Do(ctx, txn)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out.Txn(), nil
}

// led performs a call that the leader must carry out. It repeats the call if that is safe: if the call has certainly
// not begun, because the member knows no leader, or if it only reads. etcd's client itself retries only reads of one
// key.
func (s *Store) led(ctx context.Context, reads bool, do func(context.Context) error) error {
	for {
		within, done := s.guard.watch(ctx)
		err := s.classifyError(within, do(within))
		done()
		if !errors.Is(err, rpctypes.ErrNoLeader) && (!reads || !isTransientError(err)) {
			return err
		}
		if pause(ctx); ctx.Err() != nil {
			return err
		}
	}
}

// onlyReads reports whether operations change nothing.
func onlyReads(ops ...[]kv.Op) bool {
	return !slices.ContainsFunc(slices.Concat(ops...), func(op kv.Op) bool { return op.Kind != kv.OpGet })
}

// needsSpace reports whether operations need room. A cluster without room still reads and deletes.
func needsSpace(ops []kv.Op) bool {
	return slices.ContainsFunc(ops, func(op kv.Op) bool { return op.Kind == kv.OpPut })
}

func (s *Store) compares(cs []kv.Compare) []clientv3.Cmp {
	var out []clientv3.Cmp
	for _, c := range cs {
		switch c.Kind {
		case kv.CompareRevision:
			out = append(out, clientv3.Compare(clientv3.ModRevision(s.path(c.Key)), "=", int64(c.Revision)))
		case kv.CompareValue:
			out = append(out, clientv3.Compare(clientv3.Value(s.path(c.Key)), "=", string(c.Value)))
		case kv.CompareExists:
			word := "="
			if c.Exists {
				word = ">"
			}
			out = append(out, clientv3.Compare(clientv3.CreateRevision(s.path(c.Key)), word, 0))
		}
	}
	return out
}

func (s *Store) ops(ops []kv.Op) []clientv3.Op {
	var out []clientv3.Op
	for _, op := range ops {
		switch op.Kind {
		case kv.OpGet:
			out = append(out, clientv3.OpGet(s.path(op.Key)))
		case kv.OpPut:
			out = append(out, clientv3.OpPut(s.path(op.Key), string(op.Value), clientv3.WithLease(clientv3.LeaseID(op.Lease))))
		case kv.OpDelete:
			out = append(out, clientv3.OpDelete(s.path(op.Key)))
		case kv.OpDeletePrefix:
			out = append(out, clientv3.OpDelete(s.keys()+string(op.Prefix), clientv3.WithPrefix()))
		}
	}
	return out
}

func (s *Store) Compact(ctx context.Context, at kv.Revision) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if at == 0 {
		return nil
	}
	_, err := s.client.Compact(ctx, int64(at))
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) { // it is compacted already
		return fmt.Errorf("compact at %d: %w", at, s.meaning(ctx, err))
	}
	return nil
}

// weighing is the time limit for one member to report its size; then the next one is asked.
const weighing = 2 * time.Second

// Size returns the part of a member's database that is in use, by all fleets.
func (s *Store) Size(ctx context.Context) (int64, error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	return s.sizeOf(ctx, s.client.Endpoints())
}

func (s *Store) sizeOf(ctx context.Context, members []string) (int64, error) {
	var faults []error
	for _, member := range members {
		within, cancel := context.WithTimeout(ctx, weighing)
		out, err := s.client.Status(within, member)
		cancel()
		if err == nil {
			return out.DbSizeInUse, nil
		}
		faults = append(faults, fmt.Errorf("%s: %w", member, s.meaning(ctx, err)))
	}
	return 0, fmt.Errorf("weigh the store: %w", errors.Join(faults...))
}
