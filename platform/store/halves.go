package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
)

// A half is one of the two files of a slot, all numbers little endian:
//
//	"\xe5SL1", crc32c uint32 of all that follows, number uint64, length uint64, value
//
// The length halfGone means that the slot is empty. The bytes after the value have no meaning: they belonged to an
// earlier, longer value, or are room for one.
const (
	halfMagic = "\xe5SL1"
	halfHead  = len(halfMagic) + 4 + 8 + 8
	halfGone  = ^uint64(0)
	halfPage  = 4096 // writes cover complete pages, so that none has to be read first
)

// half is the content of one file of a slot, as read or written.
type half struct {
	head  [halfHead]byte // as in the file: a different one must be read again
	size  int64          // of the file; -1 without one
	fault error          // why it is incomplete
	n     uint64         // its number; 0 if it is incomplete
	gone  bool
	value []byte // nil once the value was returned
}

func (h *half) isWhole() bool { return h.n > 0 }

// appendHalf appends the start of a half's file, including spare room.
func appendHalf(to []byte, n uint64, value []byte, gone bool) []byte {
	at, length := len(to), uint64(len(value))
	if gone {
		length = halfGone
	}
	to = append(to, halfMagic+"\x00\x00\x00\x00"...)
	to = binary.LittleEndian.AppendUint64(to, n)
	to = binary.LittleEndian.AppendUint64(to, length)
	to = append(to, value...)
	sum := crc32.Checksum(to[at+len(halfMagic)+4:], castagnoli)
	binary.LittleEndian.PutUint32(to[at+len(halfMagic):], sum)
	return to
}

// pages rounds a size up to complete pages; withRoom adds room, for a new or a longer file.
func pages(octets int) int { return (octets + halfPage - 1) / halfPage * halfPage }

func roundUpPages(octets int) int { return pages(octets + octets/4) }

// parseHalf parses the content of a file.
func parseHalf(text []byte) half {
	h := half{size: int64(len(text))}
	copy(h.head[:], text)
	if len(text) < halfHead || string(text[:len(halfMagic)]) != halfMagic {
		h.fault = errors.New("it does not begin as one that was written")
		return h
	}
	rest := text[len(halfMagic)+4:]
	n, length := binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:])
	gone := length == halfGone
	if gone {
		length = 0
	}
	if length > uint64(len(text)-halfHead) {
		h.fault = fmt.Errorf("truncated after %d of %d bytes", len(text)-halfHead, length)
		return h
	}
	if crc32.Checksum(rest[:16+length], castagnoli) != binary.LittleEndian.Uint32(text[len(halfMagic):]) || n == 0 {
		h.fault = errors.New("its sum is not that of its content")
		return h
	}
	h.n, h.gone, h.value = n, gone, rest[16:16+length:16+length]
	return h
}

// readHalf reads an open file, nil for a missing one.
func readHalf(f *os.File) half {
	if f == nil {
		return half{size: -1}
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<62))
	if err != nil {
		return half{fault: err}
	}
	return parseHalf(text)
}

// isUnchanged reports whether the file still begins as it was read or written.
func (h *half) isUnchanged(f *os.File) bool {
	if f == nil || h.size < 0 {
		return f == nil && h.size < 0
	}
	var head [halfHead]byte
	n, err := f.ReadAt(head[:], 0)
	return (err == nil || errors.Is(err, io.EOF) && int64(n) == h.size) && head == h.head
}

// openHalf opens a file, or returns nil if it doesn't exist.
func openHalf(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}
