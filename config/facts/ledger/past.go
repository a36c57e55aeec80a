package ledger

import (
	"fmt"
	"slices"

	"edgespan/config/revision"
)

// get reads keys, those of a write that is not in its place yet as they will be.
func (s *State) get(r Reader, keys []revision.Key) ([]revision.Entry, error) {
	out := make([]revision.Entry, 0, len(keys))
	for batch := range slices.Chunk(keys, revision.MaxOps) {
		entries, err := r.Get(batch...)
		if err != nil {
			return nil, fmt.Errorf("read the facts: %w", err)
		}
		out = append(out, entries...)
	}
	for i, k := range keys {
		if v, is := s.overlay[k]; is {
			out[i] = revision.Entry{Key: k, Value: v, ModRevision: s.at}
		}
	}
	return out, nil
}

// versions reads versions of a half; one that is no longer kept has the zero half.
func (s *State) versions(r Reader, p place, d *definition, k Kind, numbers []uint64) ([]half, error) {
	keys := make([]revision.Key, len(numbers))
	for i, n := range numbers {
		keys[i] = p.versionKey(k, d.serial, n)
	}
	entries, err := s.get(r, keys)
	if err != nil {
		return nil, err
	}
	out := make([]half, len(numbers))
	for i, e := range entries {
		if e.Value != nil {
			if out[i], err = decode[half](e.Key, e.Value); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// version is one version of a half, whose newest is given. That of a removal is none.
func (s *State) version(r Reader, p place, d *definition, k Kind, n uint64, newest half) (half, error) {
	if n > newest.N {
		return half{}, notFound("version %d of the %s of %q: is not there: %d is the newest", n, k, d.Name, newest.N)
	}
	h := newest
	if n != newest.N {
		found, err := s.versions(r, p, d, k, []uint64{n})
		if err != nil {
			return half{}, err
		}
		h = found[0]
	}
	switch {
	case h.N == 0:
		return half{}, notFound("version %d of the %s of %q: is no longer kept", n, k, d.Name)
	case h.SHA == "":
		return half{}, notFound("version %d of the %s of %q: is their removal", n, k, d.Name)
	}
	return h, nil
}

// probes is how many versions are read at once: of ten thousand, two rounds find one.
const probes = 100

// halfAt is the version of a half as of a revision, the zero one if there was none; the newest is given.
func (s *State) halfAt(r Reader, p place, d *definition, k Kind, at uint64, newest half) (half, error) {
	if newest.Revision <= at {
		return newest, nil
	}
	var best half
	for low, high := uint64(1), newest.N; low < high; { // the version is below high, and not below low unless there is none
		step := (high - low + probes - 1) / probes
		var numbers []uint64
		for n := low; n < high; n += step {
			numbers = append(numbers, n)
		}
		found, err := s.versions(r, p, d, k, numbers)
		if err != nil {
			return half{}, err
		}
		low, high = narrow(numbers, found, high, at, &best)
	}
	return best, nil
}

// narrow is the range that is left: behind the last version that is not newer than a revision, below the one after it. What is no
// longer kept is older than what is.
func narrow(numbers []uint64, found []half, high, at uint64, best *half) (uint64, uint64) {
	for i := len(numbers) - 1; i >= 0; i-- {
		if found[i].Revision > at {
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

// Versions are those of a half of a record, the newest first.
func (s *State) Versions(q VersionsQuery, r Reader) ([]Version, error) {
	if q.Kind != Values && q.Kind != Overrides {
		return nil, invalid("kind: is %q: %q and %q are allowed", q.Kind, Values, Overrides)
	}
	at, f := s.target(q.Target)
	if f == nil {
		f = s.known(at)
	}
	if f != nil {
		return nil, f
	}
	n := at.environment.record(at.place(), at.definition.serial)
	next := n.half(q.Kind).N
	if q.Before != 0 {
		next = min(next, q.Before-1)
	}
	out := []Version{}
	for next > 0 && (q.Limit == 0 || len(out) < q.Limit) {
		var numbers []uint64
		for ; next > 0 && len(numbers) < revision.MaxOps && (q.Limit == 0 || len(out)+len(numbers) < q.Limit); next-- {
			numbers = append(numbers, next)
		}
		found, err := s.versions(r, at.place(), at.definition, q.Kind, numbers)
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(h half) bool { return h.N == 0 })
		more, err := s.signed(r, found)
		if err != nil {
			return nil, err
		}
		if out = append(out, more...); len(found) < len(numbers) {
			break // those before are no longer kept
		}
	}
	return out, nil
}

// signed says who wrote versions, and when.
func (s *State) signed(r Reader, hs []half) ([]Version, error) {
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
		out[i] = Version{h.N, h.Revision, by.Time, by.Author, by.Message, h.SHA, h.Size, h.SHA == ""}
	}
	return out, nil
}

// readRecords reads the records of revisions that there are.
func (s *State) readRecords(r Reader, numbers []uint64) ([]Record, error) {
	keys := make([]revision.Key, len(numbers))
	for i, n := range numbers {
		keys[i] = revisionKey(n)
	}
	entries, err := s.get(r, keys)
	if err != nil {
		return nil, err
	}
	out := make([]Record, len(numbers))
	for i, n := range numbers {
		e := entries[i]
		if e.Value == nil {
			return nil, notFound("revision %d: is not there: 1 to %d are", n, s.head.Revision)
		}
		if out[i], err = decodeRecord(e.Key, e.Value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func decodeRecord(k revision.Key, value []byte) (Record, error) {
	text, err := unpackText(value)
	if err != nil {
		return Record{}, fmt.Errorf("read %s: %w", k, err)
	}
	return decode[Record](k, text)
}

// RecordOf is the record of a revision that an event of the store wrote, if it is one.
func RecordOf(e revision.Event) (Record, bool, error) {
	if e.Kind != revision.EventPut || !revision.Prefix(folderRevisions).Has(e.Entry.Key) {
		return Record{}, false, nil
	}
	r, err := decodeRecord(e.Entry.Key, e.Entry.Value)
	return r, err == nil, err
}

// Records are revisions of the facts, the newest first.
func (s *State) Records(q RecordsQuery, r Reader) ([]Record, error) {
	next := s.head.Revision
	if q.Before != 0 {
		next = min(next, q.Before-1)
	}
	out := []Record{}
	for next > 0 && (q.Limit == 0 || len(out) < q.Limit) {
		var numbers []uint64
		for ; next > 0 && len(numbers) < revision.MaxOps; next-- {
			numbers = append(numbers, next)
		}
		found, err := s.readRecords(r, numbers)
		if err != nil {
			return nil, err
		}
		for _, record := range found {
			about := func(c Change) bool { return c.Environment == q.Environment }
			if (q.Environment == 0 || slices.ContainsFunc(record.Changes, about)) && (q.Limit == 0 || len(out) < q.Limit) {
				out = append(out, record)
			}
		}
	}
	return out, nil
}
