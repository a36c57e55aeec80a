package store

import (
	"bytes"
	"fmt"
	"testing"
)

// Whatever a log contains, reading it neither panics nor invents anything: what it reads encodes to the same bytes, and
// the part that it calls complete reads the same alone.
func FuzzScan(f *testing.F) {
	empty := snapshot(nil)
	f.Add(empty)
	f.Add([]byte(nil))
	log := snapshot(map[string]map[string][]byte{"t": {"k": []byte("v"), "l": nil}})
	f.Add(log)
	log = appendFrame(log, int64(len(log)), appendRecord(appendRecord(nil, record{opPut, "t", "k", []byte("w")}),
		record{op: opDelete, topic: "t", key: "l"}))
	f.Add(log)
	f.Add(log[:len(log)-1])
	f.Add(append(bytes.Clone(log), frameMagic...))
	f.Fuzz(func(t *testing.T, log []byte) {
		records, end, corrupt := scan(log)
		if corrupt != nil {
			if corrupt.Offset < 0 || corrupt.Offset > int64(len(log)) || records != nil {
				t.Fatalf("%d records and %v of %d bytes", len(records), corrupt, len(log))
			}
			return
		}
		if end < headerSize || end > len(log) {
			t.Fatalf("whole up to %d of %d", end, len(log))
		}
		again, end2, corrupt := scan(log[:end])
		if corrupt != nil || end2 != end || fmt.Sprint(again) != fmt.Sprint(records) {
			t.Fatalf("the whole part alone: %v %d %v", again, end2, corrupt)
		}
	})
}

// The same for records, which a checksum protects that a fuzzer does not guess.
func FuzzRecords(f *testing.F) {
	f.Add(appendRecord(appendRecord(nil, record{opPut, "t", "k", []byte("w")}),
		record{op: opDelete, topic: "t", key: "l"}))
	f.Add([]byte{1, 0, 0, 0})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0})
	f.Fuzz(func(t *testing.T, payload []byte) {
		records, err := parseRecords(payload)
		if err != nil {
			return
		}
		var spelled []byte
		for _, r := range records {
			spelled = appendRecord(spelled, r)
		}
		again, err := parseRecords(spelled)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(records) {
			t.Fatalf("%v became %v %v", records, again, err)
		}
		if len(spelled) > len(payload) {
			t.Fatalf("%d bytes were read from %d", len(spelled), len(payload))
		}
	})
}
