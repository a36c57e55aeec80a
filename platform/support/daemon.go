package support

import (
	"encoding/json"
	"fmt"
	"io/fs"
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
	RunDir   string     `json:"runDir"`
	Socket   string     `json:"socket"`
	Config   string     `json:"config"`
	StateDir string     `json:"stateDir"`
	Metadata string     `json:"metadata,omitempty"` // the file of a vendor's metadata
	Log      string     `json:"log,omitempty"`      // its log, if that is a file
	Record   string     `json:"record,omitempty"`   // the folder of its recording
}

// WriteDaemon records this process as the daemon of its run folder.
func WriteDaemon(d Daemon) error {
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
	return store.WriteFile(filepath.Join(d.RunDir, daemonFile), text, 0o644)
}

// isRegular reports whether a path is a regular file.
func isRegular(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// ReadDaemon returns the daemon that served this socket last, from its record in one of these folders. Its Process is
// zero if that has ended. The error of a missing record wraps fs.ErrNotExist.
func ReadDaemon(socket string, folders ...string) (Daemon, error) {
	var d Daemon
	err := fs.ErrNotExist
	for _, folder := range folders {
		var text []byte
		if text, err = os.ReadFile(filepath.Join(folder, daemonFile)); err == nil {
			d = Daemon{}
			err = json.Unmarshal(text, &d)
		}
		if err == nil && d.Socket != socket {
			err = fs.ErrNotExist // of another daemon
		}
		if err == nil {
			break
		}
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
