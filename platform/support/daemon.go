package support

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"edgespan/platform/proc"
	"edgespan/platform/store"
)

// daemonFile is the file in a run folder with what its daemon was started with: a support archive is also made when the
// daemon does not answer.
const daemonFile = "daemon.json"

// Daemon is what a daemon was started with.
type Daemon struct {
	Process  proc.Ident `json:"process"`
	Started  time.Time  `json:"started"`
	Version  string     `json:"version"`
	Node     string     `json:"node"`
	Config   string     `json:"config"`
	StateDir string     `json:"stateDir"`
	Metadata string     `json:"metadata,omitempty"` // the file of a vendor's metadata
	Log      string     `json:"log,omitempty"`      // its log, if that is a file
}

// WriteDaemon records this process as the daemon of a run folder.
func WriteDaemon(runDir string, d Daemon) error {
	var err error
	if d.Process, err = proc.Self(); err != nil {
		return err
	}
	if path, err := os.Readlink("/proc/self/fd/2"); err == nil && filepath.IsAbs(path) && isRegular(path) {
		d.Log = path
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return store.WriteFile(filepath.Join(runDir, daemonFile), text, 0o644)
}

// isRegular reports whether a path is a regular file.
func isRegular(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// ReadDaemon returns the daemon that ran last with a run folder. Its Process is zero if that has ended.
func ReadDaemon(runDir string) (Daemon, error) {
	var d Daemon
	text, err := os.ReadFile(filepath.Join(runDir, daemonFile))
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		return Daemon{}, fmt.Errorf("read what the daemon was started with: %w", err)
	}
	if d.Process.Pid != 0 && !d.Process.Alive() {
		d.Process = proc.Ident{}
	}
	if d.Log = strings.TrimSpace(d.Log); !isRegular(d.Log) {
		d.Log = ""
	}
	return d, nil
}
