package field

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	captureFrames = 1 << 14 // of a segment: those of the last minute, or more
	captureOctets = 160     // of each frame
	// captureAfter is how long a capture goes on after a violation, and maxCaptures how many are left.
	captureAfter = 2 * time.Second
	maxCaptures  = 8
)

// capture holds the last frames of a segment, as they came from its ports.
type capture struct {
	mu     sync.Mutex
	frames []captured // a ring
	next   int        // where the next one goes
}

type captured struct {
	at   time.Time
	size int // of the whole frame
	head []byte
}

func (c *capture) add(at time.Time, frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.frames) < captureFrames {
		c.frames = append(c.frames, captured{})
	}
	f := &c.frames[c.next]
	f.at, f.size, f.head = at, len(frame), append(f.head[:0], frame[:min(len(frame), captureOctets)]...)
	c.next = (c.next + 1) % captureFrames
}

// write writes the frames in the format of pcap (draft-ietf-opsawg-pcap), the oldest first.
func (c *capture) write(w io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := bufio.NewWriter(w)
	put := func(words ...int64) {
		for _, v := range words {
			_, _ = out.Write(binary.LittleEndian.AppendUint32(nil, uint32(v))) // #nosec G115 -- the format's 32 bits
		}
	}
	// With nanoseconds; version 2.4, and frames of Ethernet.
	put(0xa1b23c4d, 4<<16|2, 0, 0, captureOctets, 1)
	first := 0
	if len(c.frames) == captureFrames {
		first = c.next
	}
	for i := range c.frames {
		f := c.frames[(first+i)%len(c.frames)]
		put(f.at.Unix(), int64(f.at.Nanosecond()), int64(len(f.head)), int64(f.size))
		_, _ = out.Write(f.head)
	}
	return out.Flush() // the first error of all writes
}

// capture leaves the frames about a violation: number is how many there have been. It does not wait.
func (r *run) capture(number int) {
	if number > maxCaptures {
		return
	}
	r.capturing.Go(func() {
		<-time.After(captureAfter)
		for _, s := range r.segments {
			name := fmt.Sprintf("violation%d-%s.pcap", number, linkName(s.number))
			f, err := os.Create(filepath.Join(r.Dir, name)) // #nosec G304 -- the operator's folder
			if err == nil {
				err = s.capture.write(f)
				_ = f.Close()
			}
			if err != nil {
				r.say("%s: %v", name, err)
			}
		}
	})
}
