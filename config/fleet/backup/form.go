package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

// Format is the version of the format that this package writes, and the newest that it reads.
const Format = 1

// kind identifies a file as a backup.
const kind = "edgespan-backup"

// page is how many keys are read at once.
const page = 500

// Header is the first line: the store of the keys, and its revision.
type Header struct {
	Kind     string      `json:"kind"`
	Format   int         `json:"format"`
	Version  string      `json:"version"`  // of the program that wrote it
	Store    string      `json:"store"`    // the store's id
	Revision kv.Revision `json:"revision"` // of the store
	Time     time.Time   `json:"time"`     // by the writer's clock, UTC
	Keys     int         `json:"keys"`
}

// line is one key. The value is base64, as encoding/json writes bytes.
type line struct {
	Key      kv.Key      `json:"key"`
	Revision kv.Revision `json:"revision"` // that wrote it last
	Value    []byte      `json:"value"`
}

// last is the last line.
type last struct {
	Count  *int   `json:"count"`
	SHA256 string `json:"sha256"` // of all bytes before this line, hexadecimal
}

// ErrRestoring reports a store with an unfinished restore.
var ErrRestoring = config.Conflict.NewError("a restore into this store was interrupted: run it again")

// Source is a store at one revision, which Open determines.
type Source struct{ header Header }

// Open determines the revision of a backup and the number of its keys. It sets kind, format, revision and keys of the
// header.
func Open(r history.Reader, h Header) (*Source, error) {
	s := &Source{h}
	s.header.Kind, s.header.Format, s.header.Revision, s.header.Keys = kind, Format, 0, 0
	s.header.Time = h.Time.UTC()
	err := s.forEachEntry(r, func(e kv.Entry) error {
		if e.Key == history.RestoringKey() {
			return ErrRestoring
		}
		s.header.Keys++
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	return s, nil
}

// Header returns the first line of the backup.
func (s *Source) Header() Header { return s.header }

// Write writes the backup. If it fails, the output lacks the last line.
func (s *Source) Write(r history.Reader, w io.Writer) error {
	sum := sha256.New()
	count := 0
	err := put(w, sum, s.header)
	if err == nil {
		err = s.forEachEntry(r, func(e kv.Entry) error {
			count++
			return put(w, sum, line{e.Key, e.ModRevision, e.Value})
		})
	}
	if err == nil {
		err = put(w, sum, last{&count, hex.EncodeToString(sum.Sum(nil))})
	}
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	return nil
}

func put(w io.Writer, sum hash.Hash, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	sum.Write(text)
	_, err = w.Write(text)
	return err
}

// forEachEntry calls do for the keys of a backup, in order. The first call of each fixes the revision.
func (s *Source) forEachEntry(r history.Reader, do func(kv.Entry) error) error {
	o := kv.ListOptions{At: s.header.Revision, Limit: page}
	for {
		p, err := r.List("", o)
		if err != nil {
			return err
		}
		s.header.Revision, o.At = p.Revision, p.Revision
		for _, e := range p.Entries {
			if e.Lease != 0 {
				continue
			}
			if err := do(e); err != nil {
				return err
			}
		}
		if !p.More {
			return nil
		}
		o.After = p.Entries[len(p.Entries)-1].Key
	}
}
