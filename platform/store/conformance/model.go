package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"edgespan/config/kv"
)

// perCheck is how many histories rapid draws per check by default.
const perCheck = 100

// randomHistories runs histories on the store and on the model, and compares each answer, and at the end everything
// that can be read.
func randomHistories(t *testing.T, open Open, n int) {
	t.Helper()
	for i := range (n + perCheck - 1) / perCheck {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			left := min(n, perCheck)
			rapid.Check(t, func(d *rapid.T) {
				if left--; left < 0 { // fewer than rapid draws
					return
				}
				f := open(t)
				h := &history{T: d, store: f, model: kv.NewModel(), leases: map[kv.LeaseID]kv.LeaseID{}}
				h.run()
				if err := f.Close(); err != nil {
					d.Fatal("close:", err)
				}
			})
		})
	}
}

// history is one history. Revisions and leases have different numbers in the store and the model: history maps them.
type history struct {
	*rapid.T
	store     Fixture
	model     *kv.Model
	revisions []kv.Revision             // of the store, by the model's
	leases    map[kv.LeaseID]kv.LeaseID // of the store, by the model's
	granted   []kv.LeaseID              // of the model, including ended ones
}

var (
	someKeys     = []kv.Key{"a", "n/1", "n/2", "n/1/x", "n1", "ü/日"}
	somePrefixes = []kv.Prefix{"", "n/", "n/1/", "ü/", "a/"}
)

func (h *history) run() {
	_, first, err := h.store.Get(context.Background(), "a")
	h.ok("begin", err)
	h.revisions = []kv.Revision{first}
	for range rapid.IntRange(1, 25).Draw(h.T, "steps") {
		switch rapid.IntRange(0, 9).Draw(h.T, "what") {
		case 0:
			h.lease()
		case 1:
			h.compact()
		case 2:
			h.list()
		default:
			h.commit()
		}
	}
	for range 4 {
		h.list()
	}
	for _, p := range somePrefixes {
		h.watch(p)
	}
	for _, k := range someKeys {
		got, _, err := h.store.Get(context.Background(), k)
		want, _, wantErr := h.model.Get(k)
		h.same("get "+string(k), h.words([]kv.Entry{want}, true), h.words([]kv.Entry{got}, false), wantErr, err)
	}
}

func (h *history) ok(what string, err error) {
	if err != nil {
		h.Fatal(what, err)
	}
}

// same compares the answers of model and store.
func (h *history) same(what, want, got string, wantErr, err error) {
	h.Helper()
	if a, b := sentinel(wantErr), sentinel(err); a != b {
		h.Fatalf("%s: got error %v, the model %v", what, err, wantErr)
	}
	if want != got {
		h.Fatalf("%s:\n got   %s\n model %s", what, got, want)
	}
}

// real returns the store's number of a revision of the model.
func (h *history) real(r kv.Revision) kv.Revision { return h.revisions[r] }

// words formats entries in the store's numbers.
func (h *history) words(es []kv.Entry, ofModel bool) string {
	var out []string
	for _, e := range es {
		if ofModel && e.ModRevision != 0 {
			e.ModRevision, e.Lease = h.real(e.ModRevision), h.leases[e.Lease]
		}
		out = append(out, fmt.Sprintf("%s=%q at %d version %d lease %d", e.Key, e.Value, e.ModRevision, e.Version, e.Lease))
	}
	return fmt.Sprint(out)
}

func (h *history) commit() {
	ofModel, ofStore := h.drawTxn()
	want, wantErr := h.model.Commit(ofModel)
	got, err := h.store.Commit(context.Background(), ofStore)
	h.learn(want.Revision, got.Revision, wantErr)
	if wantErr != nil && err != nil { // both refused it for the same reason
		h.same("commit "+ofStore.String(), "", "", wantErr, err)
		return
	}
	h.same("commit "+ofStore.String(), h.outcome(want, true), h.outcome(got, false), wantErr, err)
}

// learn records the store's number of the model's newest revision.
func (h *history) learn(model, store kv.Revision, err error) {
	if err == nil && int(model) == len(h.revisions) {
		h.revisions = append(h.revisions, store)
	}
}

func (h *history) outcome(o kv.TxnResult, ofModel bool) string {
	at := o.Revision
	if ofModel && int(at) < len(h.revisions) {
		at = h.real(at)
	}
	out := fmt.Sprintf("%v at %d:", o.Succeeded, at)
	for _, r := range o.Results {
		out += fmt.Sprintf(" %s -%d", h.words([]kv.Entry{r.Entry}, ofModel), r.Deleted)
	}
	return out
}

// drawTxn draws a transaction, in the numbers of the model and of the store.
func (h *history) drawTxn() (ofModel, ofStore kv.Txn) {
	for range rapid.IntRange(0, 2).Draw(h.T, "compares") {
		c := h.compare()
		ofModel.Compares = append(ofModel.Compares, c)
		if c.Kind == kv.CompareRevision && c.Revision != 0 {
			c.Revision = h.real(c.Revision)
		}
		ofStore.Compares = append(ofStore.Compares, c)
	}
	ofModel.Then, ofModel.Else = h.ops(), h.ops()
	inStore := func(ops []kv.Op) []kv.Op {
		ops = slices.Clone(ops)
		for i, op := range ops {
			if op.Lease != 0 {
				ops[i].Lease = h.leases[op.Lease]
			}
		}
		return ops
	}
	ofStore.Then, ofStore.Else = inStore(ofModel.Then), inStore(ofModel.Else)
	return ofModel, ofStore
}

func (h *history) compare() kv.Compare {
	k := rapid.SampledFrom(someKeys).Draw(h.T, "key")
	now, _, _ := h.model.Get(k)
	switch rapid.IntRange(0, 4).Draw(h.T, "compare") {
	case 0:
		return kv.AtRevision(k, now.ModRevision)
	case 1:
		return kv.AtRevision(k, kv.Revision(rapid.IntRange(0, len(h.revisions)-1).Draw(h.T, "at")))
	case 2:
		return kv.HasValue(k, h.value())
	case 3:
		return kv.Exists(k)
	}
	return kv.Absent(k)
}

func (h *history) value() []byte {
	return []byte(rapid.SampledFrom([]string{"", "x", "y", "\x00\xff"}).Draw(h.T, "value"))
}

func (h *history) ops() (ops []kv.Op) {
	for range rapid.IntRange(0, 4).Draw(h.T, "ops") {
		k := rapid.SampledFrom(someKeys).Draw(h.T, "key")
		switch rapid.IntRange(0, 9).Draw(h.T, "op") {
		case 0, 1:
			ops = append(ops, kv.Get(k))
		case 2:
			ops = append(ops, kv.Delete(k))
		case 3:
			ops = append(ops, kv.DeletePrefix(rapid.SampledFrom(somePrefixes).Draw(h.T, "prefix")))
		case 4, 5:
			if len(h.granted) > 0 {
				ops = append(ops, kv.PutLeased(k, h.value(), rapid.SampledFrom(h.granted).Draw(h.T, "lease")))
			}
		default:
			ops = append(ops, kv.Put(k, h.value()))
		}
	}
	return ops
}

// lease grants a lease, or revokes one that may have ended.
func (h *history) lease() {
	if len(h.granted) == 0 || rapid.Bool().Draw(h.T, "grant") {
		ofModel, wantErr := h.model.Grant(time.Unix(0, 0), time.Hour)
		ofStore, err := h.store.Grant(context.Background(), time.Hour)
		h.same("grant", "", "", wantErr, err)
		h.leases[ofModel], h.granted = ofStore, append(h.granted, ofModel)
		return
	}
	id := rapid.SampledFrom(h.granted).Draw(h.T, "revoke")
	want, wantErr := h.model.Keys(id)
	got, err := h.store.Keys(context.Background(), h.leases[id])
	h.same("keys", fmt.Sprint(want), fmt.Sprint(got), wantErr, err)
	wantErr = h.model.Revoke(id)
	err = h.store.Revoke(context.Background(), h.leases[id])
	h.same("revoke", "", "", wantErr, err)
	_, model, _ := h.model.Get("a")
	_, store, err := h.store.Get(context.Background(), "a")
	h.learn(model, store, err)
	h.same("revision after revoke", fmt.Sprint(h.real(model)), fmt.Sprint(store), nil, err)
}

func (h *history) past() kv.Revision {
	return kv.Revision(rapid.IntRange(0, len(h.revisions)-1).Draw(h.T, "revision"))
}

func (h *history) compact() {
	r := h.past()
	if r == 0 { // the store may have revisions before the model's first
		return
	}
	wantErr := h.model.Compact(r)
	err := h.store.Compact(context.Background(), h.real(r))
	h.same(fmt.Sprint("compact at ", r), "", "", wantErr, err)
}

func (h *history) list() {
	p := rapid.SampledFrom(somePrefixes).Draw(h.T, "prefix")
	o := kv.ListOptions{Limit: rapid.IntRange(0, 3).Draw(h.T, "limit"), At: h.past()}
	if k := rapid.SampledFrom(someKeys).Draw(h.T, "after"); p.Has(k) && rapid.Bool().Draw(h.T, "go on") {
		o.After = k
	}
	want, wantErr := h.model.List(p, o)
	if o.At != 0 {
		o.At = h.real(o.At)
	}
	got, err := h.store.List(context.Background(), p, o)
	if wantErr == nil {
		want.Revision = h.real(want.Revision)
	}
	h.same(fmt.Sprintf("list below %q %+v", p, o), fmt.Sprint(h.words(want.Entries, true), want.Revision, want.More),
		fmt.Sprint(h.words(got.Entries, false), got.Revision, got.More), wantErr, err)
}

// watch compares the watches from each revision.
func (h *history) watch(p kv.Prefix) {
	after := h.past()
	want, wantErr := h.model.Since(p, after)
	var got []kv.Batch
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if wantErr == nil && len(want) == 0 {
		return // a watch without events does not end
	}
	err := h.store.Watch(ctx, p, h.real(after), func(b kv.Batch) error {
		if got = append(got, b); len(got) == len(want) {
			return errEnough
		}
		return nil
	})
	h.same(fmt.Sprintf("watch below %q after %d", p, h.real(after)), h.batches(want, true), h.batches(got, false), wantErr,
		err)
}

func (h *history) batches(bs []kv.Batch, ofModel bool) (out string) {
	for _, b := range bs {
		if ofModel {
			b.Revision = h.real(b.Revision)
		}
		out += fmt.Sprintf("%d:", b.Revision)
		for _, ev := range b.Events {
			out += fmt.Sprintf(" %s %s", ev.Kind, h.words([]kv.Entry{ev.Entry}, ofModel))
		}
		out += "\n"
	}
	return out
}

// sentinel returns the error of the contract that an error wraps.
func sentinel(err error) string {
	for _, known := range []error{
		kv.ErrInvalid, kv.ErrTooLarge, kv.ErrCompacted, kv.ErrFuture, kv.ErrNoLease, kv.ErrClosed,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err == nil || errors.Is(err, errEnough) {
		return ""
	}
	return err.Error()
}
