package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"edgespan/config/kv"
)

// format is the format of the file that this package reads and writes.
const format = 1

var (
	bucketMeta     = []byte("meta")
	bucketVersions = []byte("versions")
	bucketHistory  = []byte("history")
	bucketLeases   = []byte("leases")
	bucketLeased   = []byte("leased")

	metaFormat    = []byte("format")
	metaID        = []byte("id")
	metaCompacted = []byte("compacted")
	metaSwept     = []byte("swept")
	metaLease     = []byte("lease")
	metaProbe     = []byte("probe")
)

// view is the file in one bbolt transaction.
type view struct {
	meta, versions, history, leases, leased *bbolt.Bucket
}

func viewOf(tx *bbolt.Tx) view {
	return view{
		meta: tx.Bucket(bucketMeta), versions: tx.Bucket(bucketVersions), history: tx.Bucket(bucketHistory),
		leases: tx.Bucket(bucketLeases), leased: tx.Bucket(bucketLeased),
	}
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// numberAt returns a number of meta, 0 if it is missing.
func numberAt(b *bbolt.Bucket, key []byte) uint64 {
	if v := b.Get(key); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// last returns the current revision. Compaction keeps the newest record of the history.
func (v view) last() kv.Revision {
	k, _ := v.history.Cursor().Last()
	if k == nil {
		return 0
	}
	return kv.Revision(binary.BigEndian.Uint64(k))
}

func (v view) compacted() kv.Revision {
	return kv.Revision(numberAt(v.meta, metaCompacted))
}

func versionKey(k kv.Key, r kv.Revision) []byte {
	out := make([]byte, 0, len(k)+9)
	out = append(append(out, k...), 0)
	return binary.BigEndian.AppendUint64(out, uint64(r))
}

// splitVersionKey is the inverse of versionKey. The key shares memory with k.
func splitVersionKey(k []byte) (key []byte, r kv.Revision) {
	at := len(k) - 9
	return k[:at], kv.Revision(binary.BigEndian.Uint64(k[at+1:]))
}

// encode encodes the parts of an entry that are not in its key.
func encode(e kv.Entry) []byte {
	out := make([]byte, 0, len(e.Value)+2*binary.MaxVarintLen64)
	out = binary.AppendUvarint(out, e.Version)
	out = binary.AppendVarint(out, int64(e.Lease))
	return append(out, e.Value...)
}

// decode returns an entry that shares no memory with the file.
func decode(key kv.Key, r kv.Revision, data []byte) (kv.Entry, error) {
	version, n := binary.Uvarint(data)
	if n <= 0 {
		return kv.Entry{}, fmt.Errorf("version %d of %q is damaged", r, key)
	}
	lease, m := binary.Varint(data[n:])
	if m <= 0 {
		return kv.Entry{}, fmt.Errorf("version %d of %q is damaged", r, key)
	}
	e := kv.Entry{Key: key, ModRevision: r, Version: version, Lease: kv.LeaseID(lease)}
	if rest := data[n+m:]; len(rest) > 0 {
		e.Value = bytes.Clone(rest)
	}
	return e, nil
}

// deleted reports whether a version is a delete.
func deleted(data []byte) bool { return len(data) > 0 && data[0] == 0 }

// at returns the entry of a key at a revision.
func (v view) at(k kv.Key, r kv.Revision) (kv.Entry, error) {
	c := v.versions.Cursor()
	back := c.Prev
	if beyond, _ := c.Seek(versionKey(k, r+1)); beyond == nil {
		back = c.Last
	}
	found, data := back()
	if found == nil {
		return kv.Entry{Key: k}, nil
	}
	key, written := splitVersionKey(found)
	if string(key) != string(k) || deleted(data) {
		return kv.Entry{Key: k}, nil
	}
	return decode(k, written, data)
}

// below calls tell for each entry below a prefix at a revision, in the order of keys, starting after a key, until tell
// reports that it has enough.
func (v view) below(p kv.Prefix, after kv.Key, r kv.Revision, tell func(kv.Entry) bool) error {
	from := []byte(p)
	if after != "" {
		from = append([]byte(after), 1) // after all its versions, before any other key
	}
	c := v.versions.Cursor()
	k, data := c.Seek(from)
	for k != nil && bytes.HasPrefix(k, []byte(p)) {
		key, written := splitVersionKey(k)
		next, nextData := c.Next()
		current := written <= r
		if current && next != nil {
			nextKey, nextRevision := splitVersionKey(next)
			current = !bytes.Equal(nextKey, key) || nextRevision > r
		}
		if current && !deleted(data) {
			e, err := decode(kv.Key(key), written, data)
			if err != nil {
				return err
			}
			if !tell(e) {
				return nil
			}
		}
		k, data = next, nextData
	}
	return nil
}

// encodeKeys encodes a record of the history.
func encodeKeys(keys []kv.Key) []byte {
	var out []byte
	for _, k := range keys {
		out = binary.AppendUvarint(out, uint64(len(k)))
		out = append(out, k...)
	}
	return out
}

func decodeKeys(data []byte) ([]kv.Key, error) {
	var keys []kv.Key
	for len(data) > 0 {
		size, n := binary.Uvarint(data)
		if n <= 0 || size > uint64(len(data)-n) {
			return nil, fmt.Errorf("a record of the history is damaged after %d keys", len(keys))
		}
		data = data[n:]
		keys = append(keys, kv.Key(data[:size]))
		data = data[size:]
	}
	return keys, nil
}

func leasedKey(id kv.LeaseID, k kv.Key) []byte {
	return append(number(uint64(id)), k...)
}

// keysOf returns the keys of a lease, in order.
func (v view) keysOf(id kv.LeaseID) []kv.Key {
	var keys []kv.Key
	head := number(uint64(id))
	c := v.leased.Cursor()
	for k, _ := c.Seek(head); k != nil && bytes.HasPrefix(k, head); k, _ = c.Next() {
		keys = append(keys, kv.Key(slices.Clone(k[8:])))
	}
	return keys
}
