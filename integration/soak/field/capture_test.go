package field

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// records returns the frames of a file in the format of pcap.
func records(t *testing.T, file []byte) (frames [][]byte, sizes []int) {
	t.Helper()
	word := func(b []byte) int { return int(binary.LittleEndian.Uint32(b)) }
	if len(file) < 24 || word(file) != 0xa1b23c4d || word(file[16:]) != captureOctets || word(file[20:]) != 1 {
		t.Fatalf("the file begins with %x", file[:min(len(file), 24)])
	}
	for file = file[24:]; len(file) > 0; {
		n := word(file[8:])
		frames, sizes = append(frames, file[16:16+n]), append(sizes, word(file[12:]))
		file = file[16+n:]
	}
	return frames, sizes
}

func TestACaptureHoldsTheLastFrames(t *testing.T) {
	var c capture
	numbered := func(n, size int) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(n)), make([]byte, size-4)...)
	}
	const more = 100
	for n := range captureFrames + more {
		c.add(time.Unix(int64(n), 0), numbered(n, 20+n%1000))
	}
	var file bytes.Buffer
	if err := c.write(&file); err != nil {
		t.Fatal(err)
	}
	frames, sizes := records(t, file.Bytes())
	if len(frames) != captureFrames {
		t.Fatalf("%d frames, want %d", len(frames), captureFrames)
	}
	for i, f := range frames {
		n := more + i
		got := int(binary.BigEndian.Uint32(f))
		if got != n || sizes[i] != 20+n%1000 || len(f) != min(sizes[i], captureOctets) {
			t.Fatalf("frame %d: number %d, %d octets of %d, want number %d", i, got, len(f), sizes[i], n)
		}
	}
}

// The frames of all segments about a violation are left, of the first few.
func TestAViolationIsCaptured(t *testing.T) {
	j := testReferee()
	r := &run{Options: Options{Dir: t.TempDir()}, referee: j,
		segments: []*segment{newSegment(0, 1, j.frame), newSegment(1, 1, j.frame)}}
	j.capture = r.capture
	wrong := frameOf("1.1", "10.11.0.2", "198.51.100.80")
	r.segments[0].capture.add(time.Now(), wrong)
	for range maxCaptures + 5 {
		wrong[14+19]++ // another destination, so that it is another violation
		j.frame(1, 0, wrong)
	}
	r.capturing.Wait()
	files, _ := filepath.Glob(filepath.Join(r.Dir, "*.pcap"))
	if len(files) != 2*maxCaptures {
		t.Errorf("%d files %q, want %d", len(files), files, 2*maxCaptures)
	}
	file, err := os.ReadFile(filepath.Join(r.Dir, "violation1-eth0.pcap"))
	if err != nil {
		t.Fatal(err)
	}
	if frames, _ := records(t, file); len(frames) != 1 || frames[0][12] != 8 {
		t.Errorf("%x", frames)
	}
}

// A frame that is not passed on counts for the node that sent it and for the one that was to have it, and for no other.
func TestDroppedFramesAreOfTheirNodes(t *testing.T) {
	s := newSegment(0, 1, func(int, int, []byte) {})
	var full error
	for n := range 4 {
		s.ports[n] = &port{write: func([]byte) error { return full }}
	}
	frame := func(dst, src byte) []byte {
		f := frameOf("1.1", "192.0.2.11", "198.51.100.80")
		f[5], f[11] = dst, src
		return f
	}
	for n := range 4 {
		s.forward(n, frame(9, byte(n))) // each is known
	}
	full = errors.New("full")
	s.forward(1, frame(0, 1))
	s.forward(0, frame(2, 0))
	for n, want := range []int{2, 1, 1, 0} {
		if got := s.dropped(n); got != want {
			t.Errorf("port %d: %d frames, want %d", n, got, want)
		}
	}
}
