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
	Document json.RawMessage
	Due      json.RawMessage `json:",omitempty"`
	Peer     []byte          `json:",omitempty"`
}

type plain ConfigRecord

// EncodeRecord returns the content of the slot of a record.
func EncodeRecord(r *ConfigRecord) []byte {
	w := wire{plain: plain(*r), Document: config.AppendCanonical(nil, r.Document), Peer: []byte(r.Peer)}
	if r.Due != nil {
		w.Due = config.AppendCanonical(nil, r.Due)
	}
	return encodeSealed(w)
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
func EncodeClock(c Clock) []byte { return encodeSealed(c) }

// DecodeClock decodes the output of EncodeClock and accepts nothing else.
func DecodeClock(text []byte) (*Clock, error) {
	var c Clock
	if err := unseal(text, &c); err != nil {
		return nil, err
	}
	return &c, nil
}

func encodeSealed(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic("confirm: " + err.Error()) // plain values and parsed documents always encode
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
