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

// Audit is an audit log: one JSON object per line, readable only by its owner, on disk before Write returns. It is
// safe for concurrent use: writers that arrive during a sync share the next one.
type Audit struct {
	path string
	sync func(*os.File) error

	turn sync.Mutex // held while the file is written; acquired before mu
	file *os.File

	mu   sync.Mutex
	next *batch // waits for the next write
}

// batch is the lines of one sync.
type batch struct {
	text bytes.Buffer
	done bool
	err  error
}

// OpenAudit opens a log for appending, and creates it if it is missing. It appends a newline to a line that a crash
// truncated, so that the next line is separate.
func OpenAudit(path string) (*Audit, error) {
	a := &Audit{path: path, sync: (*os.File).Sync, next: &batch{}}
	return a, a.Reopen()
}

// Reopen opens the file by its name again: after a rotation that is a new file. If that fails, the old file remains in
// use.
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

// endLine appends a newline if the last line has none.
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
		return own.err // another writer wrote this batch
	}
	a.mu.Lock()
	a.next = &batch{}
	a.mu.Unlock()
	own.done, own.err = true, a.append(own.text.Bytes())
	return own.err
}

// append writes lines and syncs them.
func (a *Audit) append(text []byte) error {
	if _, err := a.file.Write(text); err != nil {
		// A partial line must not swallow the next one.
		return errors.Join(fmt.Errorf("write audit log %s: %w", a.path, err), endLine(a.file))
	}
	if err := a.sync(a.file); err != nil {
		return fmt.Errorf("write audit log %s: %w", a.path, err)
	}
	return nil
}

// Close closes the log.
func (a *Audit) Close() error {
	a.turn.Lock()
	defer a.turn.Unlock()
	return a.file.Close()
}
