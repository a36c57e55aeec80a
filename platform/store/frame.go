package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
)

// The format of the log, all numbers little endian:
//
//	header  "edgespan journal 1\n", base uint64, crc32c of both uint32
//	frame   "\xe5JF1", length of the payload uint32, crc32c uint32, payload
//	payload records: op byte, then topic, key and, for a put, value, each
//	        after its length as uvarint
//
// Everything below base was synced before the file got its name, so a defect there is never a torn write. A frame
// contains everything that is written between two syncs. So a defect before a complete frame is not a torn write
// either, and only the data after the last complete frame is cut. The checksum of a frame covers its offset, so that a
// frame inside a value is not mistaken for one of the log.
const (
	magic       = "edgespan journal 1\n"
	headerSize  = len(magic) + 8 + 4
	frameMagic  = "\xe5JF1"
	frameHead   = len(frameMagic) + 4 + 4
	recordHead  = 1 + 3*binary.MaxVarintLen64 // maximum, without topic, key and value
	snapshotCut = 64 << 10                    // bytes of records in a frame of a snapshot
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type op byte

const (
	opPut    op = 1
	opDelete op = 2
)

type record struct {
	op         op
	topic, key string
	value      []byte
}

// CorruptError reports damage in a journal that no crash can cause. The file is kept unchanged.
type CorruptError struct {
	Path   string
	Offset int64 // in bytes, of the first defect
	What   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("read journal %s: corrupt at offset %d: %s: the file is kept; restore it, or move it away to "+
		"start with an empty one",
		e.Path, e.Offset, e.What)
}

func appendRecord(b []byte, r record) []byte {
	b = append(b, byte(r.op))
	b = appendText(b, r.topic)
	b = appendText(b, r.key)
	if r.op == opPut {
		b = appendText(b, r.value)
	}
	return b
}

func appendText[T string | []byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// parseRecords parses a complete payload. With an error it returns the records before the fault.
func parseRecords(b []byte) ([]record, error) {
	var records []record
	for len(b) > 0 {
		r := record{op: op(b[0])}
		b = b[1:]
		var topic, key []byte
		var ok [3]bool
		topic, b, ok[0] = cutText(b)
		key, b, ok[1] = cutText(b)
		ok[2] = true
		switch r.op {
		case opPut:
			r.value, b, ok[2] = cutText(b)
		case opDelete:
		default:
			return records, fmt.Errorf("unknown operation %d", r.op)
		}
		if ok != [3]bool{true, true, true} {
			return records, fmt.Errorf("record %d is incomplete", len(records)+1)
		}
		r.topic, r.key = string(topic), string(key)
		records = append(records, r)
	}
	return records, nil
}

func cutText(b []byte) (text, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, b, false
	}
	end := size + int(n)
	return b[size:end], b[end:], true
}

func checksum(offset int64, length, payload []byte) uint32 {
	var at [8]byte
	binary.LittleEndian.PutUint64(at[:], uint64(offset))
	sum := crc32.Update(0, castagnoli, at[:])
	sum = crc32.Update(sum, castagnoli, length)
	return crc32.Update(sum, castagnoli, payload)
}

// appendFrame appends a frame for the given offset in the log.
func appendFrame(b []byte, offset int64, payload []byte) []byte {
	b = append(b, frameMagic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	length := b[len(b)-4:]
	b = binary.LittleEndian.AppendUint32(b, checksum(offset, length, payload))
	return append(b, payload...)
}

// cutFrame returns the payload of the complete frame at offset.
func cutFrame(log []byte, offset int) (payload []byte, ok bool) {
	b := log[offset:]
	if len(b) < frameHead || string(b[:len(frameMagic)]) != frameMagic {
		return nil, false
	}
	length, sum := b[len(frameMagic):len(frameMagic)+4], b[len(frameMagic)+4:frameHead]
	n := int64(binary.LittleEndian.Uint32(length))
	if n > int64(len(b)-frameHead) {
		return nil, false
	}
	payload = b[frameHead : frameHead+int(n)]
	return payload, checksum(int64(offset), length, payload) == binary.LittleEndian.Uint32(sum)
}

func frameFollows(log []byte, offset int) bool {
	for at := offset; ; at++ {
		next := bytes.Index(log[at:], []byte(frameMagic))
		if next < 0 {
			return false
		}
		at += next
		if _, ok := cutFrame(log, at); ok {
			return true
		}
	}
}

// scan parses a log. It is intact up to end; the rest is torn.
func scan(log []byte) (records []record, end int, err *CorruptError) {
	base, err := scanHeader(log)
	if err != nil {
		return nil, 0, err
	}
	for end = headerSize; end < len(log); {
		payload, ok := cutFrame(log, end)
		if !ok {
			if end < base || frameFollows(log, end+1) {
				return nil, end, &CorruptError{Offset: int64(end), What: "frame checksum mismatch"}
			}
			break
		}
		rs, fault := parseRecords(payload)
		if fault != nil {
			return nil, end, &CorruptError{Offset: int64(end), What: fault.Error()}
		}
		records = append(records, rs...)
		end += frameHead + len(payload)
	}
	return records, end, nil
}

func scanHeader(log []byte) (base int, err *CorruptError) {
	if len(log) < headerSize || string(log[:len(magic)]) != magic {
		return 0, &CorruptError{What: "not a journal of this version"}
	}
	body, sum := log[:headerSize-4], log[headerSize-4:headerSize]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(sum) {
		return 0, &CorruptError{What: "header checksum mismatch"}
	}
	at := binary.LittleEndian.Uint64(body[len(magic):])
	if at > uint64(len(log)) {
		return 0, &CorruptError{Offset: int64(len(log)), What: fmt.Sprintf("the file ends before offset %d", at)}
	}
	return int(at), nil
}

// snapshot encodes live data as a log with nothing else.
func snapshot(live map[string]map[string][]byte) []byte {
	log := make([]byte, headerSize)
	var payload []byte
	for _, topic := range slices.Sorted(maps.Keys(live)) {
		for _, key := range slices.Sorted(maps.Keys(live[topic])) {
			payload = appendRecord(payload, record{opPut, topic, key, live[topic][key]})
			if len(payload) >= snapshotCut {
				log = appendFrame(log, int64(len(log)), payload)
				payload = payload[:0]
			}
		}
	}
	if len(payload) > 0 {
		log = appendFrame(log, int64(len(log)), payload)
	}
	head := append(log[:0], magic...)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(log)))
	binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli))
	return log
}
