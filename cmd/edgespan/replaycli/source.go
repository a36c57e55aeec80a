package replaycli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"edgespan/cmd/term"
	ring "edgespan/platform/tape"
	"edgespan/pubsub/tape"
)

// segment is one segment of a recording: a file, or a part of a support archive.
type segment struct {
	name string
	text []byte // of an archive, compressed
}

// archived is the folder of a recording in a support archive. The others bound what is read of one.
const (
	archived        = "recording"
	archiveLimit    = 256 << 20
	archiveSegments = 2048
)

// named adds the segment's name to its fault; nil remains nil.
func (s segment) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", term.Printable(s.name), err)
}

// find returns the segments that names name, the oldest first.
func find(names []string) ([]segment, error) {
	var out []segment
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, term.Unreadable(err)
		}
		var in []segment
		switch {
		case info.IsDir():
			files, err := ring.Segments(name)
			if err != nil {
				return nil, term.Unreadable(err)
			}
			for _, f := range files {
				in = append(in, segment{name: f})
			}
		case strings.HasSuffix(name, ".tar.gz"):
			if in, err = fromArchive(name); err != nil {
				return nil, fmt.Errorf("%s: %w", term.Printable(name), err)
			}
		default:
			in = []segment{{name: name}}
		}
		if len(in) == 0 {
			return nil, fmt.Errorf("%s: has no recording: it must be the folder of 'edgespan node --record', "+
				"a segment of it, or a support archive of a node that records", term.Printable(name))
		}
		out = append(out, in...)
	}
	return out, nil
}

func fromArchive(name string) ([]segment, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	zip, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	var out []segment
	room := int64(archiveLimit)
	for files := tar.NewReader(zip); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg || path.Base(path.Dir(h.Name)) != archived || !ring.IsSegment(path.Base(h.Name)) {
			continue
		}
		if len(out) >= archiveSegments {
			return nil, fmt.Errorf("its recording has more than %d segments", archiveSegments)
		}
		text, err := io.ReadAll(io.LimitReader(files, room))
		if err != nil {
			return nil, err
		}
		if room -= int64(len(text)); room <= 0 {
			return nil, fmt.Errorf("its recording has more than %d MiB", archiveLimit>>20)
		}
		out = append(out, segment{name + ": " + path.Base(h.Name), text})
	}
}

// play replays the segment.
func (s segment) play(p *tape.Player, each func(tape.Moment) bool) (more bool, err error) {
	var from io.Reader = bytes.NewReader(s.text)
	if s.text == nil {
		file, err := os.Open(s.name)
		if err != nil {
			return false, err
		}
		defer func() { _ = file.Close() }() // it was only read
		from = file
	}
	lines, err := ring.Read(from)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true, nil // a process ended before it wrote anything
	}
	if err != nil {
		return true, err
	}
	return p.Play(lines, each)
}
