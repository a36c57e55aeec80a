package executor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
	"edgespan/platform/store"
)

// state is the record of one executor in its folder. It is written before the start, without an identity, and again
// after it.
type state struct {
	netstate.Executor
	proc.Ident
	Preexisting bool `json:"Stood"` // the unit was running before edgespan: never stop it
}

// keptState is a cached state with the file's attributes.
type keptState struct {
	state
	at   time.Time
	size int64
}

// cachedState returns a folder's state, from the cache if the file is unchanged.
func (x *Executors) cachedState(id, folder string) (state, error) {
	info, err := os.Stat(filepath.Join(folder, stateFile))
	if err != nil {
		return state{}, fmt.Errorf("read executor: %w", err)
	}
	x.mu.Lock()
	k, has := x.kept[id]
	x.mu.Unlock()
	if has && k.at.Equal(info.ModTime()) && k.size == info.Size() {
		return k.state, nil
	}
	st, err := read(folder)
	if err != nil {
		return st, err
	}
	x.mu.Lock()
	x.kept[id] = keptState{st, info.ModTime(), info.Size()}
	x.mu.Unlock()
	return st, nil
}

func read(folder string) (state, error) {
	var st state
	text, err := os.ReadFile(filepath.Join(folder, stateFile))
	if err != nil {
		return st, fmt.Errorf("read executor: %w", err)
	}
	if err := json.Unmarshal(text, &st); err != nil {
		return st, fmt.Errorf("parse executor: %w", err)
	}
	return st, nil
}

func write(folder string, st state) error {
	text, err := json.Marshal(st)
	if err == nil {
		err = store.WriteFile(filepath.Join(folder, stateFile), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write executor: %w", err)
	}
	return nil
}

// truncateOutput truncates a file of output that has grown too large; its writer appends.
func truncateOutput(file string) {
	if info, err := os.Stat(file); err == nil && info.Size() > maxOutput {
		_ = os.Truncate(file, 0) // or the next time
	}
}

// tail returns the end of a process's output on one line.
func tail(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	text := make([]byte, min(info.Size(), lastWords))
	if _, err := f.ReadAt(text, info.Size()-int64(len(text))); err != nil {
		return ""
	}
	lines := strings.FieldsFunc(strings.ToValidUTF8(string(text), "?"), func(r rune) bool { return r < ' ' })
	return strings.Join(lines, "; ")
}
