package dnsmasq

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A helper's output is in memory: the run folder is a tmpfs that helpers share, and an app can make dnsmasq print a
// line for each packet. The file is opened for appending, so it can be truncated while a helper writes. It grows while
// no daemon runs; the next daemon truncates it within a round.
const (
	outMax = 64 << 10 // bytes per helper
	// The time from an output's growth to the round that truncates it: outRound, or longer with many helpers. 2,000
	// helpers per second cost some thousandths of a core.
	outRound = 100 * time.Millisecond
	outEach  = 500 * time.Microsecond
)

// outputs truncates the outputs of helpers. The kernel reports which of them grow, so that nothing runs while none
// does. If it can't (fs.inotify.max_user_instances, max_user_watches), the outputs are polled.
type outputs struct {
	notify  *os.File // inotify; nil without one
	grown   chan struct{}
	watched map[string]bool // paths
}

// newOutputs starts to wait for growth, until ctx ends.
func newOutputs(ctx context.Context) *outputs {
	o := &outputs{grown: make(chan struct{}), watched: map[string]bool{}}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return o
	}
	o.notify = os.NewFile(uintptr(fd), "inotify")
	go func() {
		<-ctx.Done()
		o.notify.Close()
	}()
	go func() {
		events := make([]byte, 64*unix.SizeofInotifyEvent)
		for {
			if _, err := o.notify.Read(events); err != nil {
				return
			}
			select { // until the next round, equal events are one to the kernel
			case o.grown <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return o
}

// trim truncates the outputs that have grown too large, and reports whether some must be polled.
func (o *outputs) trim(paths []string) (poll bool) {
	watched := make(map[string]bool, len(paths))
	for _, path := range paths {
		watched[path] = o.watched[path] || o.watch(path)
		poll = poll || !watched[path]
		trim(path) // also a new one, which an earlier daemon may have left
	}
	o.watched = watched
	return poll
}

// forget makes the next round watch all outputs: a helper that starts anew has another file of the same name.
func (o *outputs) forget() { clear(o.watched) }

func (o *outputs) watch(path string) bool {
	if o.notify == nil {
		return false
	}
	c, err := o.notify.SyscallConn()
	if err != nil {
		return false
	}
	var failed error
	err = c.Control(func(fd uintptr) { _, failed = unix.InotifyAddWatch(int(fd), path, unix.IN_MODIFY) })
	return err == nil && failed == nil
}

// trim truncates a file that is larger than outMax. The next round retries a failure.
func trim(path string) {
	var st unix.Stat_t // os.Lstat would allocate 400 bytes
	if err := unix.Lstat(path, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size > outMax {
		_ = os.Truncate(path, 0)
	}
}

// outPaths returns the outputs of the helpers that run.
func (h *Helpers) outPaths() []string {
	names := h.guard.Running()
	for i, name := range names {
		names[i] = filepath.Join(h.folder(name), outFile)
	}
	return names
}
