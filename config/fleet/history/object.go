package history

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/kv"
)

// Reader reads the store. A backend with a deadline implements it.
type Reader interface {
	// Get reads up to kv.MaxOps keys at one moment, in their order. A missing key has ModRevision 0.
	Get(keys ...kv.Key) ([]kv.Entry, error)
	// List reads the keys below a prefix, in order.
	List(below kv.Prefix, o kv.ListOptions) (kv.Page, error)
}

const (
	// chunkSize limits the bytes of one object: two of them and their keys fit into a transaction (kv.MaxSize).
	chunkSize = 512 << 10
	// getBatch is the number of objects to read at once: 64 chunks are at most 32 MiB.
	getBatch = 64
)

// The first byte of an object is its type.
const (
	kindChunk = 'c' // bytes of a document
	kindList  = 'l' // the hashes of its chunks, one a line
	kindPiece = 't' // a piece of a tree
)

// objects reads objects by their hash, and collects new ones.
type objects struct {
	reader Reader
	fresh  map[string][]byte // not in the store yet
	order  []string          // of fresh
}

func (o *objects) put(kind byte, content []byte) string {
	value := append([]byte{kind}, content...)
	sum := sha256.Sum256(value)
	hash := hex.EncodeToString(sum[:])
	if _, known := o.fresh[hash]; !known {
		if o.fresh == nil {
			o.fresh = map[string][]byte{}
		}
		o.fresh[hash] = value
		o.order = append(o.order, hash)
	}
	return hash
}

// get reads objects; a missing or damaged one is an error.
func (o *objects) get(hashes []string) (map[string][]byte, error) {
	out, damaged, err := o.load(hashes)
	if err != nil {
		return nil, err
	}
	for _, hash := range sortedKeys(damaged) {
		return nil, damaged[hash]
	}
	return out, nil
}

// load reads objects and reports the damaged ones.
func (o *objects) load(hashes []string) (out map[string][]byte, damaged map[string]error, err error) {
	out, damaged = make(map[string][]byte, len(hashes)), map[string]error{}
	var keys []kv.Key
	for _, hash := range hashes {
		if _, asked := out[hash]; asked {
			continue
		}
		value, fresh := o.fresh[hash]
		out[hash] = value
		if !fresh {
			keys = append(keys, objectKey(hash))
		}
	}
	for batch := range slices.Chunk(keys, getBatch) {
		entries, err := o.reader.Get(batch...)
		if err != nil {
			return nil, nil, fmt.Errorf("read objects: %w", err)
		}
		for i, e := range entries {
			hash := strings.TrimPrefix(string(batch[i]), folderObjects)
			sum := sha256.Sum256(e.Value)
			switch {
			case !e.Exists():
				damaged[hash] = badObject(hash, "is not there")
			case hex.EncodeToString(sum[:]) != hash:
				damaged[hash] = badObject(hash, "has other content")
			default:
				out[hash] = e.Value
				continue
			}
			delete(out, hash)
		}
	}
	return out, damaged, nil
}

// badObject is the error of a stored object that does not match its hash.
func badObject(hash, what string) error {
	return fmt.Errorf("read object %s: %s", hash, what)
}

// putDocument splits a document into chunks. It refuses a document that could not be read again.
func (o *objects) putDocument(doc config.Object) (string, config.Faults) {
	text := config.AppendCanonical(nil, doc)
	if _, faults := config.ParseObject(text); len(faults) > 0 {
		return "", faults
	}
	if len(text) < chunkSize {
		return o.put(kindChunk, text), nil
	}
	var hashes []string
	for chunk := range slices.Chunk(text, chunkSize-1) {
		hashes = append(hashes, o.put(kindChunk, chunk))
	}
	return o.put(kindList, []byte(strings.Join(hashes, "\n"))), nil
}

// documents reads documents; the hash "" is none. It reports unreadable ones as damaged.
func (o *objects) documents(hashes []string) (out map[string]config.Object, damaged map[string]error, err error) {
	hashes = slices.DeleteFunc(slices.Clone(hashes), func(hash string) bool { return hash == "" })
	out, damaged = make(map[string]config.Object, len(hashes)), map[string]error{}
	for batch := range slices.Chunk(hashes, getBatch) {
		values, bad, err := o.load(batch)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(damaged, bad)
		for hash, value := range values {
			text, bad, err := o.text(hash, value)
			if err != nil {
				return nil, nil, err
			}
			if bad != nil {
				damaged[hash] = bad
				continue
			}
			doc, faults := config.ParseObject(text)
			if len(faults) > 0 {
				damaged[hash] = fmt.Errorf("read object %s: %w", hash, faults)
				continue
			}
			out[hash] = doc
		}
	}
	return out, damaged, nil
}

// text returns the whole text of a document, or its damage.
func (o *objects) text(hash string, value []byte) (text []byte, damaged, err error) {
	switch value[0] {
	case kindChunk:
		return value[1:], nil, nil
	case kindList:
		chunks := strings.Split(string(value[1:]), "\n")
		values, bad, err := o.load(chunks)
		if err != nil {
			return nil, nil, err
		}
		for _, chunk := range chunks {
			if bad[chunk] != nil {
				return nil, bad[chunk], nil
			}
			text = append(text, values[chunk][1:]...)
		}
		return text, nil, nil
	}
	return nil, badObject(hash, "is not a document"), nil
}
