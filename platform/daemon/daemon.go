// Package daemon is what a long-running process needs of its host: notification of
// systemd, and the files of its configuration.
//
// It never decides what a configuration means.
package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"edgespan/platform/store"
)

// Notifier sends states to systemd's socket at addr, the value of NOTIFY_SOCKET
// (sd_notify(3)); with "" it does nothing. A state that can't be sent is dropped:
// the watchdog is systemd's to judge.
func Notifier(addr string) func(state string) {
	if addr == "" {
		return func(string) {}
	}
	if strings.HasPrefix(addr, "@") {
		addr = "\x00" + addr[1:]
	}
	return func(state string) {
		c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: addr, Net: "unixgram"})
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = c.Write([]byte(state))
	}
}

// MachineBoot is the id of this boot of the machine, "" where the kernel does not tell:
// then every start of the agent may have been one.
func MachineBoot() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Files are the config file, and what the config actor keeps in the state folder.
type Files struct {
	Config   string // the path given by --config; "" for none
	StateDir string
}

func (f Files) lastGood() string { return filepath.Join(f.StateDir, "last-good-config") }

// ReadConfig reads the config file; its name is "" when there is none.
func (f Files) ReadConfig() ([]byte, string, error) {
	if f.Config == "" {
		return nil, "", nil
	}
	b, err := os.ReadFile(f.Config)
	if err != nil {
		return nil, f.Config, fmt.Errorf("read config: %w", err)
	}
	return b, f.Config, nil
}

func (f Files) slot(name string) string { return filepath.Join(f.StateDir, "config-"+name) }

// Read reads a slot, or gives an error that wraps fs.ErrNotExist.
func (f Files) Read(name string) ([]byte, error) { return os.ReadFile(f.slot(name)) }

// Write replaces a slot: a power cut leaves the old or the new content.
func (f Files) Write(name string, content []byte) error {
	return store.WriteFile(f.slot(name), content, 0o600)
}

// WriteSpare replaces a slot without waiting for the disk: a power cut soon after may spoil it.
func (f Files) WriteSpare(name string, content []byte) error {
	return store.WriteSpare(f.slot(name), content, 0o600)
}

// Remove takes a slot away. A missing one is no error.
func (f Files) Remove(name string) error {
	if err := os.Remove(f.slot(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ReadLastGood reads the last good config of earlier versions, or gives an error that
// wraps fs.ErrNotExist.
func (f Files) ReadLastGood() ([]byte, error) {
	b, err := os.ReadFile(f.lastGood())
	if err != nil {
		return nil, fmt.Errorf("read last good config: %w", err)
	}
	return b, nil
}

// RemoveLastGood takes it away.
func (f Files) RemoveLastGood() error { return os.Remove(f.lastGood()) }
