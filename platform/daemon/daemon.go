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
	*store.Slots // config-NAME
	config       string
	stateDir     string
	spend        func(error) bool
}

// Spending are the files with space that is given up for a write that finds none: spend says
// whether there was some, for an error that asks for it.
func (f Files) Spending(spend func(error) bool) Files {
	f.spend = spend
	return f
}

// Write replaces a value: a power cut leaves the old or the new one.
func (f Files) Write(name string, value []byte) error {
	err := f.Slots.Write(name, value)
	if err != nil && f.spend != nil && f.spend(err) {
		err = f.Slots.Write(name, value)
	}
	return err
}

// SetAside keeps what stands in a slot that can't be read under other names, before it is
// written again.
func (f Files) SetAside(name string) { store.CopyAside(filepath.Join(f.stateDir, "config-"+name)) }

// NewFiles are those of a node; config is the path given by --config, "" for none.
func NewFiles(config, stateDir string) Files {
	return Files{Slots: store.NewSlots(filepath.Join(stateDir, "config")), config: config, stateDir: stateDir}
}

func (f Files) lastGood() string { return filepath.Join(f.stateDir, "last-good-config") }

// ReadConfig reads the config file; its name is "" when there is none.
func (f Files) ReadConfig() ([]byte, string, error) {
	if f.config == "" {
		return nil, "", nil
	}
	b, err := os.ReadFile(f.config)
	if err != nil {
		return nil, f.config, fmt.Errorf("read config: %w", err)
	}
	return b, f.config, nil
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
