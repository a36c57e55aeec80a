package datadir

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Lines is a log of many lines, of which losing some is no harm: a file of limited size, rotated as by Rotation, that
// leaves Spare bytes of its disk to others and is never synchronized. It is safe for concurrent use.
type Lines struct {
	Path  string
	Limit int64  // of one file
	Keep  int    // files in addition to the current one
	Spare uint64 // of the disk

	mu   sync.Mutex
	file *os.File // nil: not open
	size int64
}

// spareEvery is how many bytes are written between two looks at the disk's free space.
const spareEvery = 1 << 18

// Write appends whole lines: all of them or, with an error, none. It creates the file if needed, for its owner alone.
func (l *Lines) Write(lines []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && l.size+int64(len(lines)) > l.Limit && l.size > 0 {
		l.close()
		if err := rotate(l.Path, l.Keep); err != nil {
			return err
		}
	}
	if err := l.open(); err != nil {
		return err
	}
	if l.size/spareEvery != (l.size+int64(len(lines)))/spareEvery || l.size == 0 {
		if err := Room(l.file, l.Spare); err != nil {
			return err
		}
	}
	return l.append(lines)
}

// append writes at the end of the open file.
func (l *Lines) append(lines []byte) error {
	n, err := l.file.Write(lines)
	if err != nil {
		_ = l.file.Truncate(l.size) // no half line
		l.close()
		return fmt.Errorf("write %s: %w", l.Path, err)
	}
	l.size += int64(n)
	return nil
}

// Room returns an error if the disk of an open file or folder has no space to spare.
func Room(file *os.File, spare uint64) error {
	var disk unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &disk); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < spare+spareEvery { // the kernel returns no negative size
		return fmt.Errorf("write %s: the disk has %d KiB left: must be %d or more: %w", file.Name(), free>>10,
			(spare+spareEvery)>>10, unix.ENOSPC)
	}
	return nil
}

func (l *Lines) open() error {
	if l.file != nil {
		return nil
	}
	f, err := os.OpenFile(l.Path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	if l.size, err = endOfLines(f); err != nil {
		return errors.Join(fmt.Errorf("open %s: %w", l.Path, err), f.Close())
	}
	l.file = f
	return nil
}

// endOfLines cuts off a last line that a crash has left without its end, and returns the size.
func endOfLines(f *os.File) (int64, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return 0, err
	}
	tail := make([]byte, min(size, longestLine))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return 0, err
	}
	cut := 0
	for cut < len(tail) && tail[len(tail)-1-cut] != '\n' {
		cut++
	}
	if cut == 0 {
		return size, nil
	}
	return size - int64(cut), f.Truncate(size - int64(cut))
}

func (l *Lines) close() {
	_ = l.file.Close() // what is not written is lost
	l.file = nil
}

// Close closes the file; a later Write opens it again.
func (l *Lines) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.close()
	}
}

// Stored returns a function that emits the lines that are there now, the oldest first and without their ends, until ctx
// ends or emit fails. It must be called once. What is written or rotated after Stored does not concern it.
func (l *Lines) Stored() (read func(ctx context.Context, emit func(line []byte) error) error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var parts []part
	for n := l.Keep; n >= 0; n-- {
		path := l.Path
		if n > 0 {
			path = keptPath(l.Path, n)
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var info fs.FileInfo
		if err == nil {
			info, err = f.Stat()
		}
		if err != nil {
			closeParts(parts)
			return nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
		}
		parts = append(parts, part{f, info.Size()})
	}
	return func(ctx context.Context, emit func([]byte) error) error {
		defer closeParts(parts)
		for _, p := range parts {
			if err := p.read(ctx, emit); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// part is a file up to a size.
type part struct {
	file *os.File
	size int64
}

func (p part) read(ctx context.Context, emit func([]byte) error) error {
	lines := bufio.NewScanner(io.LimitReader(p.file, p.size))
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := emit(lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(p.file.Name()), err)
	}
	return nil
}

func closeParts(parts []part) {
	for _, p := range parts {
		_ = p.file.Close() // only read
	}
}
