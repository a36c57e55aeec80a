package history

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// entry is a layer's head: its document and the revision that wrote it. It remains when the layer is deleted.
type entry struct {
	Layer    Layer  `json:"layer"`
	Object   string `json:"object,omitempty"` // "": the layer is deleted
	Revision uint64 `json:"revision"`
	From     *Layer `json:"from,omitempty"` // the layer's name before this revision
}

// piece is a part of a tree: some entries sorted by layer, or the pieces below it, by the next hex digit of the hash of
// a layer's name.
type piece struct {
	Entries []entry           `json:"entries,omitempty"`
	Below   map[string]string `json:"below,omitempty"`
}

// maxEntries limits the entries of one piece: with 20,000 layers a write of one of them stores five pieces of about 1
// KB.
const maxEntries = 16

// place returns a layer's place in a tree: one hex digit for each level.
func place(l Layer) string {
	sum := sha256.Sum256([]byte(l.String()))
	return hex.EncodeToString(sum[:])
}

func (o *objects) pieces(hashes []string) (map[string]piece, error) {
	values, err := o.get(hashes)
	if err != nil {
		return nil, err
	}
	out := make(map[string]piece, len(values))
	for hash, value := range values {
		if out[hash], err = readPiece(hash, value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func readPiece(hash string, value []byte) (piece, error) {
	var p piece
	if value[0] != kindPiece {
		return p, fmt.Errorf("read object %s: is not a piece of a tree", hash)
	}
	if err := json.Unmarshal(value[1:], &p); err != nil {
		return p, fmt.Errorf("read object %s: %w", hash, err)
	}
	return p, nil
}

func (o *objects) putPiece(p piece) (string, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("write a piece of a tree: %w", err)
	}
	return o.put(kindPiece, text), nil
}

// find reads the entries of layers; one that was never written has revision 0.
func (o *objects) find(root string, desired []Layer) (map[Layer]entry, error) {
	out := make(map[Layer]entry, len(desired))
	at := map[string][]Layer{root: desired}
	for depth := 0; len(at) > 0; depth++ {
		delete(at, "")
		pieces, err := o.pieces(sortedKeys(at))
		if err != nil {
			return nil, err
		}
		next := map[string][]Layer{}
		for hash, here := range at {
			for _, l := range here {
				if i := slices.IndexFunc(pieces[hash].Entries, func(e entry) bool { return e.Layer == l }); i >= 0 {
					out[l] = pieces[hash].Entries[i]
				} else if below := pieces[hash].Below[place(l)[depth:depth+1]]; below != "" {
					next[below] = append(next[below], l)
				}
			}
		}
		at = next
	}
	return out, nil
}

// update returns a tree with changed entries for some layers. Entries are never removed, so that an inner piece remains
// one, and the form of a tree depends only on its entries.
func (o *objects) update(root string, depth int, changed []entry) (string, error) {
	var p piece
	if root != "" {
		pieces, err := o.pieces([]string{root})
		if err != nil {
			return "", err
		}
		p = pieces[root]
	}
	if p.Below == nil {
		all := map[Layer]entry{}
		for _, e := range slices.Concat(p.Entries, changed) {
			all[e.Layer] = e
		}
		p.Entries = slices.SortedFunc(maps.Values(all), byLayer)
		if len(all) <= maxEntries {
			return o.putPiece(p)
		}
		changed, p = p.Entries, piece{Below: map[string]string{}}
	}
	groups := map[string][]entry{}
	for _, e := range changed {
		digit := place(e.Layer)[depth : depth+1]
		groups[digit] = append(groups[digit], e)
	}
	for _, digit := range sortedKeys(groups) {
		below, err := o.update(p.Below[digit], depth+1, groups[digit])
		if err != nil {
			return "", err
		}
		p.Below[digit] = below
	}
	return o.putPiece(p)
}

// diffTrees reads the entries that differ between two trees, by layer; it does not read shared pieces. The root "" is a
// tree without entries.
func (o *objects) diffTrees(a, b string) (map[Layer][2]entry, error) {
	out := map[Layer][2]entry{}
	level := [][2]string{{a, b}}
	for len(level) > 0 {
		var hashes []string
		for _, pair := range level {
			for _, hash := range pair {
				if hash != "" && pair[0] != pair[1] {
					hashes = append(hashes, hash)
				}
			}
		}
		pieces, err := o.pieces(hashes)
		if err != nil {
			return nil, err
		}
		var next [][2]string
		for _, pair := range level {
			if pair[0] == pair[1] {
				continue
			}
			below := map[string][2]string{}
			for side, hash := range pair {
				for digit, hash := range pieces[hash].Below {
					both := below[digit]
					both[side] = hash
					below[digit] = both
				}
				for _, e := range pieces[hash].Entries {
					both := out[e.Layer]
					both[side] = e
					out[e.Layer] = both
				}
			}
			next = append(next, slices.Collect(maps.Values(below))...)
		}
		level = next
	}
	for l, both := range out {
		if both[0].Revision == both[1].Revision {
			delete(out, l)
		}
	}
	return out, nil
}

// entries reads all entries of a tree, sorted by layer.
func (o *objects) entries(root string) ([]entry, error) {
	both, err := o.diffTrees("", root)
	if err != nil {
		return nil, err
	}
	out := make([]entry, 0, len(both))
	for _, e := range both {
		out = append(out, e[1])
	}
	slices.SortFunc(out, byLayer)
	return out, nil
}

func byLayer(a, b entry) int { return strings.Compare(a.Layer.String(), b.Layer.String()) }

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
