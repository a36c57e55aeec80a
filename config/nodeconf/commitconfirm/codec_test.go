package commitconfirm

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/nodeconf/action"
)

func someRecord(t testing.TB) *ConfigRecord {
	return &ConfigRecord{
		Seq: 1<<64 - 1, Authority: "j", Source: Push, Generation: Generation{Authority: "c", Counter: 1 << 63},
		Restores: c(1), FileDigest: "f",
		Document: doc(t, `{"a":9007199254740993,"b":1.5,"c":"<é\u0001>","d":{},"e":null,"f":[1,true]}`), Peer: "\xff\x00p",
		Attempt: 6, By: "uid 0 (root)",
		Open: true, Due: doc(t, `{"a":1}`), Before: Echo{c(1), "m"}, Restart: action.NameReboot, Machine: "m1",
		Results: []action.Result{{Action: "X", State: action.Failed, Cause: "y"}}, Wait: time.Minute, Good: []string{"g"},
		Undo: &Undone{Echo{c(2), "n"}, Unhealthy, "w", 7}, Undone: &Undone{Echo{c(3), "o"}, Unconfirmed, "v", 0},
		Fallback: true,
	}
}

// What is on the disk comes back as it was, whole numbers and opaque bytes included.
func TestRecordsComeBackAsTheyWere(t *testing.T) {
	all := reflect.ValueOf(*someRecord(t))
	for i := range all.NumField() {
		if all.Type().Field(i).IsExported() && all.Field(i).IsZero() {
			t.Errorf("%s has no value here", all.Type().Field(i).Name)
		}
	}
	for _, r := range []*ConfigRecord{someRecord(t), {Document: config.Object{}},
		{Document: config.Object{}, Due: config.Object{}}} {
		got, err := DecodeRecord(EncodeRecord(r))
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, r)
		}
	}
	with := someRecord(t) // the text that a push brought is stored as it came
	with.text = config.AppendCanonical(nil, with.Document)
	if got, err := DecodeRecord(EncodeRecord(with)); err != nil || !reflect.DeepEqual(got, someRecord(t)) {
		t.Errorf("with its text: got %+v, %v", got, err)
	}
	clock := Clock{1<<64 - 1, 119 * time.Second, 1, true}
	if got, err := DecodeClock(EncodeClock(clock)); err != nil || *got != clock {
		t.Errorf("%+v %v", got, err)
	}
}

// A bit that was lost is noticed wherever it was: the content is corrupt, not another one.
func TestEveryLostBitIsNoticed(t *testing.T) {
	record, clock := EncodeRecord(someRecord(t)), EncodeClock(Clock{Seq: 1})
	for i := range 8 * len(record) {
		record[i/8] ^= 1 << (i % 8)
		if _, err := DecodeRecord(record); err == nil {
			t.Fatalf("bit %d of a record", i)
		}
		record[i/8] ^= 1 << (i % 8)
	}
	for i := range len(clock) {
		if _, err := DecodeClock(clock[:i]); err == nil {
			t.Fatalf("%d bytes of a clock", i)
		}
	}
	for text, want := range map[string]string{
		"": "it does not begin with " + magic,
		string(seal(marshal(7))): "it is no record: json: cannot unmarshal number into Go value of type " +
			"commitconfirm.wire",
		string(seal(marshal(config.Object{}))): "document: invalid JSON: line 1 column 1: it is empty",
	} {
		if _, err := DecodeRecord([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Whatever is read is written alike; the fuzzer gives bodies, since it can't guess sums.
func FuzzDecode(f *testing.F) {
	f.Add(EncodeRecord(someRecord(f))[len(magic)+65:])
	f.Add(EncodeClock(Clock{Seq: 1, Starts: 1})[len(magic)+65:])
	f.Add([]byte(`{"Document":{},"Due":null,"Peer":"/w=="}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = DecodeRecord(body)
		if !json.Valid(body) {
			return
		}
		text := seal(body)
		if r, err := DecodeRecord(text); err == nil {
			again, err := DecodeRecord(EncodeRecord(r))
			if err != nil || config.MD5(again.Document) != config.MD5(r.Document) || again.Peer != r.Peer || again.Seq != r.Seq {
				t.Fatalf("%+v: %+v, %v", r, again, err)
			}
		}
		if c, err := DecodeClock(text); err == nil {
			if again, err := DecodeClock(EncodeClock(*c)); err != nil || *again != *c {
				t.Fatalf("%+v: %+v, %v", c, again, err)
			}
		}
	})
}

// What a record says of its document is what the document says, however it came about.
func TestTheDigestThatIsKeptIsTheDocuments(t *testing.T) {
	document := doc(t, `{"a":1}`)
	kept := Candidate{Source: Push, Document: document}
	if reported := (Candidate{Document: document, MD5: "told"}).digest(); reported != "told" ||
		kept.digest() != config.MD5(document) {
		t.Errorf("%s, %s", reported, kept.digest())
	}
	var m Machine
	m.Step(Boot{Start: "s", Machine: "m",
		Disk: Disk{Confirmed: &ConfigRecord{Seq: 1, Authority: "j", Source: Apply, Document: document}}})
	if m.confirmed.md5 == "" || m.State().Echo.MD5 != config.MD5(document) {
		t.Errorf("%q is kept, %q told", m.confirmed.md5, m.State().Echo.MD5)
	}
}
