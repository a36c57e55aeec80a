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

// magic begins every file of this package; the checksum of the following lines comes after it.
const magic = "edgespan-confirm 1 "

// wire is a record in its file form: documents keep their integers, and opaque values their bytes.
type wire struct {
	plain
	Document json.RawMessage `json:",omitempty"` // EncodeRecord inserts it
	Due      json.RawMessage `json:",omitempty"`
	Peer     []byte          `json:",omitempty"`
}

type plain ConfigRecord

// EncodeRecord returns the content of the slot of a record. It inserts the document into the JSON of the rest, because
// encoding/json would parse it to compact it: with a large document, a node spends most of a push on that.
func EncodeRecord(r *ConfigRecord) []byte {
	w := wire{plain: plain(*r), Peer: []byte(r.Peer)}
	if r.Due != nil {
		w.Due = config.AppendCanonical(nil, r.Due)
	}
	rest := marshal(w) // never empty: Seq is always there
	body := append(make([]byte, 0, len(rest)+len(r.text)+32), `{"Document":`...)
	if r.text != nil {
		body = append(body, r.text...)
	} else {
		body = config.AppendCanonical(body, r.Document)
	}
	return seal(append(append(body, ','), rest[1:]...))
}

// DecodeRecord decodes the output of EncodeRecord and accepts nothing else.
func DecodeRecord(text []byte) (*ConfigRecord, error) {
	var w wire
	if err := unseal(text, &w); err != nil {
		return nil, err
	}
	r := ConfigRecord(w.plain)
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

// EncodeClock returns the content of the slot of a clock.
func EncodeClock(c Clock) []byte { return seal(marshal(c)) }

// DecodeClock decodes the output of EncodeClock and accepts nothing else.
func DecodeClock(text []byte) (*Clock, error) {
	var c Clock
	if err := unseal(text, &c); err != nil {
		return nil, err
	}
	return &c, nil
}

func marshal(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic("confirm: " + err.Error()) // plain values and parsed documents always encode
	}
	return body
}

func seal(body []byte) []byte {
	sum := sha256.Sum256(body)
	head := magic + hex.EncodeToString(sum[:]) + "\n"
	return append(append(make([]byte, 0, len(head)+len(body)), head...), body...)
}

func unseal(text []byte, v any) error {
	head, body, _ := bytes.Cut(text, []byte("\n"))
	given, ok := bytes.CutPrefix(head, []byte(magic))
	sum := sha256.Sum256(body)
	switch {
	case !ok:
		return errors.New("it does not begin with " + magic)
	case string(given) != hex.EncodeToString(sum[:]):
		return errors.New("its sum is not that of its content")
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("it is no record: %w", err)
	}
	return nil
}
