package model

import (
	"fmt"
	"slices"

	"edgespan/config/configdb"
	"edgespan/config/kv"
)

// get reads keys. For an unfinished write it returns the values that the write will store.
func (s *State) get(r Source, keys []kv.Key) ([]kv.Entry, error) {
	out := make([]kv.Entry, 0, len(keys))
	for batch := range slices.Chunk(keys, kv.MaxOps) {
		entries, err := r.Get(batch...)
		if err != nil {
			return nil, fmt.Errorf("read the facts: %w", err)
		}
		out = append(out, entries...)
	}
	for i, k := range keys {
		if v, ok := s.overlay[k]; ok {
			out[i] = kv.Entry{Key: k, Value: v, ModRevision: s.at}
		}
	}
	return out, nil
}

// versions reads versions of a half; a pruned version is the zero half.
func (s *State) versions(r Source, p place, d *definition, k Kind, numbers []uint64) ([]half, error) {
	keys := make([]kv.Key, len(numbers))
	for i, n := range numbers {
		keys[i] = p.versionKey(k, d.serial, n)
	}
	entries, err := s.get(r, keys)
	if err != nil {
		return nil, err
	}
	out := make([]half, len(numbers))
	if err := r.Meter().Spend(1024*len(entries), 4096*len(entries)); err != nil {
		return nil, documentError(err, nil)
	}
	for i, e := range entries {
		if e.Value != nil {
			if out[i], err = decode[half](e.Key, e.Value); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// version returns one version of a half, given the newest. Removals have no number, so the N in the key of a version
// exceeds its number by the removals before it.
func (s *State) version(r Source, p place, d *definition, k Kind, n uint64, newest half) (half, error) {
	if n > newest.version() {
		return half{}, notFound("version %d of the %s of %q: is not there: %d is the newest", n, k, d.Name, newest.version())
	}
	upTo := func(h half) bool { return h.version() < n || h.version() == n && h.SHA != "" }
	h, err := s.newestMatching(r, p, d, k, n, min(n+newest.Removals+1, newest.N), newest, upTo)
	if err == nil && h.version() != n {
		return half{}, notFound("version %d of the %s of %q: is no longer kept", n, k, d.Name)
	}
	return h, err
}

// halfAsOf returns a half at a revision, given the newest; the zero half if it did not exist.
func (s *State) halfAsOf(r Source, p place, d *definition, k Kind, at uint64, newest half) (half, error) {
	return s.newestMatching(r, p, d, k, 1, newest.N, newest, func(h half) bool { return h.Revision <= at })
}

// probes is the number of versions read at once: two rounds find one of ten thousand.
const probes = 100

// newestMatching returns the newest version for which match returns true, given that it does so for all versions before
// that one too. It tries the newest and then the versions with N from low to below high; it returns the zero half if
// there is none.
func (s *State) newestMatching(r Source, p place, d *definition, k Kind, low, high uint64, newest half,
	match func(half) bool) (half,
	error) {
	if match(newest) {
		return newest, nil
	}
	var best half
	for low < high { // the result has low <= N < high, or does not exist
		step := (high - low + probes - 1) / probes
		var numbers []uint64
		for n := low; n < high; n += step {
			numbers = append(numbers, n)
		}
		found, err := s.versions(r, p, d, k, numbers)
		if err != nil {
			return half{}, err
		}
		low, high = narrow(numbers, found, high, match, &best)
	}
	return best, nil
}

// narrow returns the remaining range: after the last probe for which match returned true and before the next probe.
// Pruned versions are older than all others.
func narrow(numbers []uint64, found []half, high uint64, match func(half) bool, best *half) (uint64, uint64) {
	for i := len(numbers) - 1; i >= 0; i-- {
		if !match(found[i]) {
			high = numbers[i]
			continue
		}
		if found[i].N > best.N {
			*best = found[i]
		}
		return numbers[i] + 1, high
	}
	return high, high
}

// Versions returns the versions and removals of a half of a record, the newest first: fewer than the limit if their
// records are large.
func (s *State) Versions(q VersionsQuery, r Source) ([]Version, error) {
	if q.Kind != Values && q.Kind != Overrides {
		return nil, invalid("kind: invalid value %q: must be %q or %q", q.Kind, Values, Overrides)
	}
	at, f := s.target(q.Target)
	if f == nil {
		f = s.checkKnown(at)
	}
	if f != nil {
		return nil, f
	}
	n := at.environment.record(at.place(), at.definition.serial)
	newest := *n.half(q.Kind)
	if q.Before != 0 {
		older := func(h half) bool { return h.version() < q.Before }
		var err error
		if newest, err = s.newestMatching(r, at.place(), at.definition, q.Kind, q.Before-1,
			min(q.Before+newest.Removals, newest.N),
			newest, older); err != nil {
			return nil, err
		}
	}
	out, next := []Version{}, newest.N
	for there := 0; next > 0 && (q.Limit == 0 || there < q.Limit); {
		var numbers []uint64
		for ; next > 0 && len(numbers) < pageOfRecords && (q.Limit == 0 || there+len(numbers) < q.Limit); next-- {
			numbers = append(numbers, next)
		}
		found, err := s.versions(r, at.place(), at.definition, q.Kind, numbers)
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(h half) bool { return h.N == 0 })
		more, err := s.addAuthors(r, found)
		if len(out) > 0 && isTooLarge(err) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		for _, v := range more {
			if !v.Removed {
				there++
			}
		}
		if out = append(out, more...); len(found) < len(numbers) || pageIsFull(r) {
			break // the older ones are pruned, or belong to the next answer
		}
	}
	return out, nil
}

// addAuthors adds author, time and message to versions.
func (s *State) addAuthors(r Source, hs []half) ([]Version, error) {
	numbers := make([]uint64, len(hs))
	for i, h := range hs {
		numbers[i] = h.Revision
	}
	records, err := s.readRecords(r, numbers)
	if err != nil {
		return nil, err
	}
	out := make([]Version, len(hs))
	for i, h := range hs {
		by := records[i]
		out[i] = Version{h.version(), h.Revision, by.Time, by.Author, by.Message, s.key.digest(h.SHA), h.Size, h.SHA == ""}
		if h.SHA == "" {
			out[i].Number = 0
		}
	}
	return out, nil
}

// readRecords reads the records of revisions; a pruned record has no revision.
func (s *State) readRecords(r Source, numbers []uint64) ([]Record, error) {
	keys := make([]kv.Key, len(numbers))
	for i, n := range numbers {
		keys[i] = revisionKey(n)
	}
	entries, err := s.get(r, keys)
	if err != nil {
		return nil, err
	}
	out := make([]Record, len(numbers))
	for i := range numbers {
		e := entries[i]
		if e.Value == nil { // pruned
			if err := r.Meter().Spend(256, 4096); err != nil {
				return nil, documentError(err, nil)
			}
			out[i] = Record{Author: "somebody"}
			continue
		}
		if out[i], err = decodeRecord(r.Meter(), e.Key, e.Value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func decodeRecord(m *configdb.Meter, k kv.Key, value []byte) (Record, error) {
	text, err := unpackText(value)
	if err != nil {
		return Record{}, fmt.Errorf("read %s: %w", k, err)
	}
	if err := m.Spend(4*len(text), 16*len(text)+4096); err != nil {
		return Record{}, documentError(err, nil)
	}
	return decode[Record](k, text)
}

// RecordOf returns the revision's record that an event of the store wrote, and false for any other event.
func RecordOf(e kv.Event) (Record, bool, error) {
	if e.Kind != kv.EventPut || !kv.Prefix(folderRevisions).Has(e.Entry.Key) {
		return Record{}, false, nil
	}
	r, err := decodeRecord(nil, e.Entry.Key, e.Entry.Value)
	return r, err == nil, err
}

// pageOfRecords is the number of records read at once: few, since one may be large.
const pageOfRecords = 16

// pageIsFull reports whether an answer has become so long that the caller must request the rest separately.
func pageIsFull(r Source) bool {
	made, looked := r.Meter().Used()
	return made > configdb.MaxMade/4 || looked > configdb.MaxLooked/4
}

// Records returns revisions of ConfigDB, the newest first: fewer than the limit if they are large.
func (s *State) Records(q RecordsQuery, r Source) ([]Record, error) {
	next := s.head.Revision
	if q.Before != 0 {
		next = min(next, q.Before-1)
	}
	out := []Record{}
	for next > 0 && (q.Limit == 0 || len(out) < q.Limit) {
		var numbers []uint64
		for ; next > 0 && len(numbers) < pageOfRecords; next-- {
			numbers = append(numbers, next)
		}
		found, err := s.readRecords(r, numbers)
		if len(out) > 0 && isTooLarge(err) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		for _, record := range found {
			if record.Revision == 0 {
				continue
			}
			about := func(c Change) bool { return c.Environment == q.Environment }
			if (q.Environment == 0 || slices.ContainsFunc(record.Changes, about)) && (q.Limit == 0 || len(out) < q.Limit) {
				out = append(out, s.key.Show(record))
			}
		}
		switch {
		case !pageIsFull(r) || next == 0:
		case len(out) == 0:
			return nil, tooLarge("history: has nothing of environment %d from revision %d on: before=%d finds what is older",
				q.Environment, next+1, next+1)
		default:
			return out, nil
		}
	}
	return out, nil
}
