// Package daemon is what a long-running process needs of its host: notification of
// systemd, and the files of its configuration.
//
// It never decides what a configuration means.
package daemon

import (
	"fmt"
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

// Files are the config file and the last good config.
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

// ReadLastGood reads the last good config, or an error that wraps fs.ErrNotExist.
func (f Files) ReadLastGood() ([]byte, error) {
	b, err := os.ReadFile(f.lastGood())
	if err != nil {
		return nil, fmt.Errorf("read last good config: %w", err)
	}
	return b, nil
}

// WriteLastGood replaces it: a power cut leaves the old or the new one.
func (f Files) WriteLastGood(b []byte) error {
	if err := store.WriteFile(f.lastGood(), b, 0o600); err != nil {
		return fmt.Errorf("write last good config: %w", err)
	}
	return nil
}
