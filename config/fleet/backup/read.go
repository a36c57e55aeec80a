package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"slices"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

const (
	maxFaults = 20             // listed in an error
	longest   = 2 * kv.MaxSize // bytes of a line: a value is base64
)

// Copy is a complete backup that was read. Most of its values remain in the file: a fleet's may exceed a machine's
// memory.
type Copy struct {
	Header  Header
	SHA256  string // of all lines but the last
	entries []entry
	values  map[kv.Key][]byte // of the keys in whole
	file    io.ReaderAt
}

// entry is a key of a backup, and the position of its line.
type entry struct {
	key      kv.Key
	revision kv.Revision
	at       int64 // offset in the file
	size     int
	sum      uint32      // CRC-32 of the line, to notice changes of the file
	barrier  kv.Revision // of a rollout
}

// whole lists the keys whose values a program needs before it restores.
var whole = []kv.Key{history.FleetKey(), history.FormatKey(), history.HeadKey()}

// readLine reads the line of a key again.
func (c *Copy) readLine(e entry) (l line, err error) {
	text := make([]byte, e.size)
	if _, err := c.file.ReadAt(text, e.at); err != nil && !errors.Is(err, io.EOF) {
		return l, fmt.Errorf("read backup again: %w", err)
	}
	if crc32.ChecksumIEEE(text) != e.sum {
		return l, fmt.Errorf("read backup again: line of %s: was changed meanwhile: must be a file that does not change",
			config.Quote(string(e.key)))
	}
	return l, json.Unmarshal(text, &l)
}

// Fleet returns the value of the key that all controllers of the fleet share; nil without one.
func (c *Copy) Fleet() []byte { return c.Value(history.FleetKey()) }

// Value returns the value of the key of the fleet, of the store's format, or of the head; nil if the backup lacks it.
func (c *Copy) Value(k kv.Key) []byte { return c.values[k] }

// Omit excludes a key from the restore.
func (c *Copy) Omit(k kv.Key) {
	delete(c.values, k)
	for i, e := range c.entries {
		if e.key == k {
			c.entries = append(c.entries[:i:i], c.entries[i+1:]...)
			return
		}
	}
}

// File is the source of a backup: read once from its beginning, and each key again when it is restored.
type File interface {
	io.Reader
	io.ReaderAt
}

// Read reads a backup and checks all of it. The error is one of the reader's, or config.Faults with all faults; their
// paths name the line.
func Read(in File) (*Copy, error) {
	c, err := Check(in)
	if err == nil {
		c.file = in
	}
	return c, err
}

// Check is Read for a stream: the result can't be restored.
func Check(in io.Reader) (*Copy, error) {
	r := &lineReader{in: bufio.NewReaderSize(in, 1<<20), sum: sha256.New(), seen: map[kv.Key]int{}}
	r.copy.values = map[kv.Key][]byte{}
	if err := r.readAll(); err != nil {
		return nil, fmt.Errorf("read backup: %w", err)
	}
	if n := len(r.faults); n > maxFaults {
		r.faults = r.faults[:maxFaults]
		r.faults.Add(nil, fmt.Sprintf("%d more faults", n-maxFaults), "")
	}
	if len(r.faults) > 0 {
		return nil, r.faults
	}
	return &r.copy, nil
}

// lineReader is the state of Read.
type lineReader struct {
	in     *bufio.Reader
	sum    hash.Hash
	number int   // of the current line
	at     int64 // offset of the line's end in the file
	seen   map[kv.Key]int
	copy   Copy
	faults config.Faults
}

func (r *lineReader) addFault(allowed, format string, args ...any) {
	r.faults.Add([]string{fmt.Sprint("line ", r.number)}, fmt.Sprintf(format, args...), allowed)
}

// next reads a line, nil at the end of the file. A last line without a newline counts as missing.
func (r *lineReader) next() ([]byte, error) {
	var text []byte
	for {
		part, err := r.in.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case err == nil:
			r.number++
			r.at += int64(len(text))
			return text, nil
		case errors.Is(err, io.EOF):
			return nil, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(text) > longest:
			r.number++
			r.addFault("", "is longer than %d bytes", longest)
			return nil, nil
		}
	}
}

// readAll reads all lines.
func (r *lineReader) readAll() error {
	text, err := r.next()
	if err != nil {
		return err
	}
	if text == nil || !r.parseHeader(text) {
		if text == nil && len(r.faults) == 0 {
			r.faults.Add(nil, "is empty, or its first line is cut off", "must be a file that edgespan-controller backup wrote")
		}
		return nil
	}
	r.sum.Write(text)
	for {
		if text, err = r.next(); err != nil {
			return err
		}
		if text == nil {
			r.faults.Add(nil, fmt.Sprintf("ends after %d of %d keys, without its last line: it was cut off", len(r.copy.entries),
				r.copy.Header.Keys), "")
			return nil
		}
		var end last
		if bytes.HasPrefix(text, []byte(`{"count":`)) && json.Unmarshal(text, &end) == nil && end.Count != nil {
			return r.checkLast(end)
		}
		r.sum.Write(text)
		r.parseEntry(text)
	}
}

// parseHeader parses the first line, and reports whether the others can be read.
func (r *lineReader) parseHeader(text []byte) bool {
	h := &r.copy.Header
	err := json.Unmarshal(text, h)
	switch {
	case h.Kind != kind:
		r.addFault("must be a file that edgespan-controller backup wrote", "invalid first line of a backup")
	case h.Format > Format:
		r.addFault(fmt.Sprintf("must be %d or less: use the program that is as new as the backup's, %s", Format,
			config.Quote(h.Version)), "format is %d", h.Format)
	case err != nil:
		r.addFault("", "%v", err)
	case h.Format < 1:
		r.addFault("must be 1 or more", "format is %d", h.Format)
	default:
		return true
	}
	return false
}

// parseEntry parses the line of a key.
func (r *lineReader) parseEntry(text []byte) {
	var l line
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		r.addFault("", "invalid key: %v", err)
		return
	}
	if first, twice := r.seen[l.Key]; twice {
		r.addFault("must be unique: one line for each key", "key %s is in line %d, too", config.Quote(string(l.Key)), first)
		return
	}
	r.seen[l.Key] = r.number
	r.copy.entries = append(r.copy.entries,
		entry{l.Key, l.Revision, r.at - int64(len(text)), len(text), crc32.ChecksumIEEE(text), barrierOf(l)})
	if slices.Contains(whole, l.Key) {
		r.copy.values[l.Key] = l.Value
	}
	switch {
	case l.Key == history.RestoringKey():
		r.addFault("", "is a restore's own key")
	case l.Revision == 0 || l.Revision > r.copy.Header.Revision:
		r.addFault(fmt.Sprintf("must be 1 to %d", r.copy.Header.Revision), "revision is %d", l.Revision)
	}
	fenced := kv.Txn{Compares: []kv.Compare{restoreFence(make([]byte, maxMark))}, Then: []kv.Op{kv.Put(l.Key, l.Value)}}
	if err := fenced.Check(); err != nil {
		r.addFault("", "%v", err)
	} else if err := check(l); err != nil {
		r.addFault("", "value of %s: %v", config.Quote(string(l.Key)), err)
	}
}

// check parses a value that a restore has to change.
func check(l line) error {
	switch {
	case history.InGenerations.Has(l.Key):
		return json.Unmarshal(l.Value, new(fleet.Counted))
	case history.InRollouts.Has(l.Key):
		return json.Unmarshal(l.Value, new(barred))
	}
	return nil
}

// checkLast checks the last line.
func (r *lineReader) checkLast(end last) error {
	r.copy.SHA256 = hex.EncodeToString(r.sum.Sum(nil))
	keys := len(r.copy.entries)
	switch {
	case *end.Count != r.number-2:
		r.addFault(fmt.Sprintf("the last line says %d", *end.Count), "the file has %d keys", r.number-2)
	case *end.Count != r.copy.Header.Keys:
		r.addFault(fmt.Sprintf("the first line says %d", r.copy.Header.Keys), "the file has %d keys", keys)
	}
	if end.SHA256 != r.copy.SHA256 {
		r.addFault(fmt.Sprintf("its last line says %s", config.Quote(end.SHA256)), "the file was changed: its SHA-256 is %s",
			r.copy.SHA256)
	}
	more, err := r.in.Peek(1)
	if len(more) > 0 {
		r.addFault("", "is followed by more: the last line ends a backup")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
