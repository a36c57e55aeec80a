package resolvconf

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

// The times of a Watch.
const (
	gather    = 100 * time.Millisecond // changes within this time are read once
	rest      = 400 * time.Millisecond // between two reads, however often the files change
	again     = time.Minute            // an unreported change is found after this time
	checkPace = 5 * time.Second        // interval without inotify
)

// Watch reads at once, and again when a file may have changed, links are received or asked fires. It calls tell with
// the differences, until ctx ends. A read that blocks, such as on a dead network file system, only delays the next
// read.
func (r Reader) Watch(ctx context.Context, links <-chan []Link, asked <-chan struct{},
	tell func(map[string][]netstate.DNSSource)) {
	touched := make(chan struct{}, 1)
	go r.watchFolders(ctx, touched)
	var now []Link
	var last map[string][]netstate.DNSSource
	timer := time.NewTimer(again)
	defer timer.Stop()
	for {
		wait := gather
		select {
		case <-ctx.Done():
			return
		case now = <-links:
			wait = 0
		case <-asked:
			wait = 0
		case <-touched:
		case <-timer.C:
		}
		if !pause(ctx, wait) {
			return
		}
		if now == nil {
			continue // the links are not known yet
		}
		read := r.Read(now)
		if ctx.Err() != nil {
			return
		}
		if last == nil || !reflect.DeepEqual(read, last) {
			last = read
			tell(read)
		}
		timer.Reset(again)
		if !pause(ctx, rest) {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// watched are the inotify events that matter.
const watched = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM |
	unix.IN_CREATE | unix.IN_DELETE | unix.IN_ONLYDIR

// watchFolders signals when a watched folder may have changed. The folders above a missing one report its creation. A
// user has 128 inotify instances, of which this uses one; if none is left, it signals at an interval.
func (r Reader) watchFolders(ctx context.Context, touched chan<- struct{}) {
	signal := func() {
		select {
		case touched <- struct{}{}:
		default: // already signaled
		}
	}
	ino, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		for pause(ctx, checkPace) {
			signal()
		}
		return
	}
	defer func() { _ = unix.Close(ino) }()
	var wake [2]int
	if unix.Pipe2(wake[:], unix.O_CLOEXEC) != nil {
		return // no descriptors: the read after a minute must suffice
	}
	defer func() { _ = unix.Close(wake[0]) }()
	stop := context.AfterFunc(ctx, func() { _ = unix.Close(wake[1]) })
	defer func() {
		if stop() {
			_ = unix.Close(wake[1])
		}
	}()
	for {
		for _, folder := range watchable() {
			_, _ = unix.InotifyAddWatch(ino, filepath.Join(r.root(), folder), watched) // adding again is no error
		}
		fds := []unix.PollFd{{Fd: int32(ino), Events: unix.POLLIN}, {Fd: int32(wake[0]), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR || fds[1].Revents != 0 {
			return
		}
		drain(ino)
		signal()
		if !pause(ctx, gather) { // one signal for a thousand events
			return
		}
	}
}

// watchable returns the folders of interest and all folders above them, below the root.
func watchable() []string {
	var all []string
	for _, f := range folders() {
		for ; f != "."; f = filepath.Dir(f) {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return append(all, ".")
}

func drain(fd int) {
	var b [4096]byte
	for {
		if n, err := unix.Read(fd, b[:]); n <= 0 || err != nil {
			return
		}
	}
}
