package supportcli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"edgespan/platform/support"
	"edgespan/platform/tape"
)

// Limits of a recording in an archive, in octets as it is on the disk.
const (
	recordingLimit = 16 << 20 // of the newest segments
	segmentLimit   = 8 << 20
	lineLimit      = 64 << 20 // of one line, uncompressed
)

// recordingParts returns the end of the daemon's recording, for 'edgespan replay'. Its secrets are replaced while it is
// recorded; a segment that has one nevertheless is left out.
func (c *collection) recordingParts() []support.Part {
	const about = "what the daemon was told and decided, for edgespan replay"
	if c.daemon.Record == "" {
		return []support.Part{{Name: "recording", About: about, Missing: "the daemon records nothing: see node --record"}}
	}
	names, err := tape.Segments(c.daemon.Record)
	if err != nil {
		return []support.Part{{Name: "recording", About: about, Missing: err.Error()}}
	}
	var out []support.Part
	room := int64(recordingLimit)
	for _, name := range slices.Backward(names) {
		if info, err := os.Stat(name); err == nil {
			if room -= info.Size(); room < 0 {
				break
			}
		}
		out = append(out, support.Part{Name: "recording/" + filepath.Base(name), About: about, Limit: segmentLimit,
			Opaque: true, Collect: func(_ context.Context, w io.Writer) error { return c.copySegment(name, w) }})
	}
	slices.Reverse(out)
	return out
}

// copySegment writes a segment, unless a secret is in it.
func (c *collection) copySegment(name string, w io.Writer) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it is only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	lines, err := tape.Read(io.LimitReader(file, info.Size())) // the daemon may write more
	if err != nil {
		return err
	}
	scan := bufio.NewScanner(lines)
	scan.Buffer(make([]byte, 0, 1<<20), lineLimit)
	for scan.Scan() {
		if c.redact.Knows(scan.Text()) {
			return errors.New("a secret is in it")
		}
	}
	if err := scan.Err(); errors.Is(err, bufio.ErrTooLong) { // otherwise its end is missing, and no reader gets it
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = io.CopyN(w, file, info.Size())
	return err
}
