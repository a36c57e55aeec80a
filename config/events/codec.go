package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumDigits is the length of a line's checksum.
const sumDigits = 8

// Encode returns the line of an event in a file: the CRC-32C of its JSON in 8 hexadecimal digits, a space, the JSON and
// a newline. A line that a power cut has torn does not have its checksum.
func Encode(e Event) []byte {
	text, err := json.Marshal(e)
	if err != nil { // a time beyond the year 9999
		return nil
	}
	return append(fmt.Appendf(nil, "%08x %s", crc32.Checksum(text, castagnoli), text), '\n')
}

// Decode reads the lines of a file. Of several lines of one event the newest counts. It skips lines that are torn or
// damaged, and returns how many.
func Decode(text []byte) (list []Event, damaged int) {
	by := map[uint64]Event{}
	for line := range bytes.Lines(text) {
		e, ok := decodeLine(line)
		if !ok {
			damaged++
			continue
		}
		if old, there := by[e.Seq]; !there || old.Rev <= e.Rev {
			by[e.Seq] = e
		}
	}
	for _, e := range by {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Event) int {
		if a.Seq < b.Seq {
			return -1
		}
		return 1
	})
	return list, damaged
}

func decodeLine(line []byte) (e Event, ok bool) {
	line, whole := bytes.CutSuffix(line, []byte{'\n'})
	if !whole || len(line) <= sumDigits || line[sumDigits] != ' ' {
		return e, false
	}
	sum, err := strconv.ParseUint(string(line[:sumDigits]), 16, 32)
	line = line[sumDigits+1:]
	if err != nil || uint32(sum) != crc32.Checksum(line, castagnoli) || json.Unmarshal(line, &e) != nil {
		return e, false
	}
	return e, e.Seq > 0 && e.Changed() <= maxSeq
}
