package dnsmasq

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/dump"
	"edgespan/platform/proc"
)

// state is the record of one process in its folder. It is written before the start, without an identity, and again
// after it.
type state struct {
	proc.Ident
	Argv   []string       `json:"argv"`
	Digest string         `json:"digest"`
	Reload string         `json:"reload"`
	Probe  netstate.Probe `json:"probe"`
	Bridge int            `json:"bridge"` // index of the link that it serves
	// Limits are those that it was put under, if the machine can do it.
	Limits netstate.ProcessLimits `json:"limits,omitzero"`
}

// freshAnswer is how long a helper that has answered need not be asked the same again: an observation and the self-test
// that follows it ask one question.
const freshAnswer = time.Second

// records are the records of helpers as they were read, and the last answers of helpers.
type records struct {
	mu       sync.Mutex
	read     map[string]seenRecord // by name
	answered map[string]lastAnswer
}

type seenRecord struct {
	state
	stamp   dump.Stamp
	telling bool
}

// lastAnswer is the last good answer of a process to a query.
type lastAnswer struct {
	proc.Ident
	to netstate.Probe
	at time.Time
}

// record returns the record of a process, which it reads only if it may have changed.
func (h *Helpers) record(name string) (state, error) {
	began := time.Now()
	stamp, err := dump.StampOf(filepath.Join(h.folder(name), stateFile))
	if old, known := h.records.get(name); known && err == nil && old.telling && old.stamp == stamp {
		return old.state, nil
	}
	st, err := read(h.folder(name))
	if err == nil {
		h.records.set(name, seenRecord{st, stamp, stamp.IsTelling(began)})
	}
	return st, err
}

func (r *records) get(name string) (seenRecord, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, known := r.read[name]
	return old, known
}

func (r *records) set(name string, s seenRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read == nil {
		r.read = map[string]seenRecord{}
	}
	r.read[name] = s
}

// await waits until a process answers (await), and notes that it has.
func (h *Helpers) await(ctx context.Context, name string, p netstate.Probe, bridge int, id proc.Ident) error {
	if err := await(ctx, h.netns, p, bridge, id); err != nil {
		return err
	}
	r := &h.records
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answered == nil {
		r.answered = map[string]lastAnswer{}
	}
	r.answered[name] = lastAnswer{id, p, time.Now()}
	return nil
}

// hasJustAnswered reports whether the recorded process of a name has answered this query within freshAnswer.
func (h *Helpers) hasJustAnswered(name string, p netstate.Probe) bool {
	st, err := h.record(name)
	r := &h.records
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.answered[name]
	return err == nil && last.Ident == st.Ident && last.to == p && time.Since(last.at) < freshAnswer
}

// forget drops what is known of a process that is about to be stopped.
func (r *records) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.read, name)
	delete(r.answered, name)
}

// bridgeOf returns the index of the link that a process was started for, 0 without a record.
func (h *Helpers) bridgeOf(p netstate.Process) int {
	st, _ := h.record(p.Name) // unreadable: as without a record
	return st.Bridge
}

func read(folder string) (state, error) {
	var st state
	b, err := os.ReadFile(filepath.Join(folder, stateFile))
	if err != nil {
		return st, fmt.Errorf("read process state: %w", err)
	}
	if err := json.Unmarshal(b, &st); err != nil {
		return st, fmt.Errorf("parse process state: %w", err)
	}
	return st, nil
}

func write(folder string, st state) error {
	b, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("write process state: %w", err)
	}
	path := filepath.Join(folder, stateFile)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return fmt.Errorf("write process state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write process state: %w", err)
	}
	return nil
}
