package commitconfirm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"edgespan/config"
)

// magic begins every file of this package, before the sum of what follows the line.
const magic = "edgespan-confirm 1 "

// wire is a record as it stands in a file: documents keep their integers, and what is
// opaque its bytes.
type wire struct {
	plain
	Document json.RawMessage
	Due      json.RawMessage `json:",omitempty"`
	Peer     []byte          `json:",omitempty"`
}

type plain Record

// EncodeRecord is a record as the content of its slot.
func EncodeRecord(r *Record) []byte {
	w := wire{plain: plain(*r), Document: config.AppendCanonical(nil, r.Document), Peer: []byte(r.Peer)}
	if r.Due != nil {
		w.Due = config.AppendCanonical(nil, r.Due)
	}
	return seal(w)
}

// DecodeRecord reads what EncodeRecord wrote, and nothing else.
func DecodeRecord(text []byte) (*Record, error) {
	var w wire
	if err := unseal(text, &w); err != nil {
		return nil, err
	}
	r := Record(w.plain)
	r.Peer = string(w.Peer)
	for _, part := range []struct {
		name string
		text []byte
		to   *config.Object
	}{{"document", w.Document, &r.Document}, {"due", w.Due, &r.Due}} {
		if part.name == "due" && part.text == nil {
			continue
		}
		o, faults := config.ParseObject(part.text)
		if faults != nil {
			return nil, fmt.Errorf("%s: %w", part.name, faults)
		}
		*part.to = o
	}
	return &r, nil
}

// EncodeClock is a clock as the content of its slot.
func EncodeClock(c Clock) []byte { return seal(c) }

// DecodeClock reads what EncodeClock wrote, and nothing else.
func DecodeClock(text []byte) (*Clock, error) {
	var c Clock
	if err := unseal(text, &c); err != nil {
		return nil, err
	}
	return &c, nil
}

func seal(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic("confirm: " + err.Error()) // plain values, and documents that were read
	}
	sum := sha256.Sum256(body)
	return append([]byte(magic+hex.EncodeToString(sum[:])+"\n"), body...)
}

func unseal(text []byte, v any) error {
	head, body, _ := bytes.Cut(text, []byte("\n"))
	given, is := bytes.CutPrefix(head, []byte(magic))
	sum := sha256.Sum256(body)
	switch {
	case !is:
		return errors.New("it does not begin with " + magic)
	case string(given) != hex.EncodeToString(sum[:]):
		return errors.New("its sum is not that of its content")
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("it is no record: %w", err)
	}
	return nil
}
