package datadir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Audit is an audit log: one JSON object a line, for its owner alone, on disk before Write
// returns. It may be used from several goroutines: those who write while the disk syncs share
// the next sync.
type Audit struct {
	path string
	sync func(*os.File) error

	turn sync.Mutex // of who writes to the file; taken before mu
	file *os.File

	mu   sync.Mutex
	next *batch // that waits for the disk
}

// batch is the lines that one sync brings to the disk.
type batch struct {
	text bytes.Buffer
	done bool
	err  error
}

// OpenAudit opens a log for appending, and makes it if it is missing. A line that a crash
// cut off stays as it is and is ended, so that the next one stands by itself.
func OpenAudit(path string) (*Audit, error) {
	a := &Audit{path: path, sync: (*os.File).Sync, next: &batch{}}
	return a, a.Reopen()
}

// Reopen opens the file of the log's name anew: after a rotation that is another one. If it
// can't be opened, the old one serves on.
func (a *Audit) Reopen() error {
	f, err := openLog(a.path)
	if err != nil {
		return fmt.Errorf("open audit log: %w", err)
	}
	a.turn.Lock()
	defer a.turn.Unlock()
	old := a.file
	a.file = f
	if old == nil {
		return nil
	}
	return old.Close()
}

func openLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(endLine(f), f.Sync(), syncFolder(filepath.Dir(path))); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// endLine ends a last line that has no end.
func endLine(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = f.Write([]byte{'\n'})
	return err
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Write appends one entry and returns when it is on disk.
func (a *Audit) Write(entry any) error {
	line, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("write audit log: %w", err)
	}
	a.mu.Lock()
	own := a.next
	own.text.Write(append(line, '\n'))
	a.mu.Unlock()
	a.turn.Lock()
	defer a.turn.Unlock()
	if own.done {
		return own.err // another one's turn took ours along
	}
	a.mu.Lock()
	a.next = &batch{}
	a.mu.Unlock()
	own.done, own.err = true, a.append(own.text.Bytes())
	return own.err
}

// append brings lines to the disk.
func (a *Audit) append(text []byte) error {
	if _, err := a.file.Write(text); err != nil {
		// Whatever part of a line is there must not swallow the next one.
		return errors.Join(fmt.Errorf("write audit log %s: %w", a.path, err), endLine(a.file))
	}
	if err := a.sync(a.file); err != nil {
		return fmt.Errorf("write audit log %s: %w", a.path, err)
	}
	return nil
}

// Close ends the log.
func (a *Audit) Close() error {
	a.turn.Lock()
	defer a.turn.Unlock()
	return a.file.Close()
}
