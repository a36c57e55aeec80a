// Package daemon provides what a long-running process needs from its host: notification of systemd, the lock of its
// network namespace, and the files of its configuration.
//
// It never decides what a configuration means.
package daemon

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"edgespan/platform/store"

	"golang.org/x/sys/unix"
)

// Notifier returns a function that sends states to systemd's socket at addr, the value of NOTIFY_SOCKET
// (sd_notify(3)). With "" the function does nothing. It drops a state that can't be sent: systemd's watchdog then
// decides.
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

// MachineBoot returns the ID of the machine's current boot, or "" if the kernel has none: then every start of the
// agent may follow a reboot.
func MachineBoot() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Uptime returns the time since the machine's boot, with that in which it was suspended. No program can set it.
func Uptime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil { // impossible: Linux has it since 2.6.39
		return 0
	}
	return time.Duration(t.Nano())
}

// Files are the config file and the config actor's files in the state folder.
type Files struct {
	*store.Slots // config-NAME
	config       string
	stateDir     string
	spend        func(error) bool
}

// WithReserve returns files that retry a write after spend has released reserved space. spend reports whether it
// released any for the error of the write.
func (f Files) WithReserve(spend func(error) bool) Files {
	f.spend = spend
	return f
}

// Write replaces a value: a power failure leaves the old or the new one.
func (f Files) Write(name string, value []byte) error {
	err := f.Slots.Write(name, value)
	if err != nil && f.spend != nil && f.spend(err) {
		err = f.Slots.Write(name, value)
	}
	return err
}

// SetAside copies an unreadable slot to other names before it is written again.
func (f Files) SetAside(name string) { store.CopyAside(filepath.Join(f.stateDir, "config-"+name)) }

// NewFiles returns the files of a node. config is the path given by --config, or "".
func NewFiles(config, stateDir string) Files {
	return Files{Slots: store.NewSlots(filepath.Join(stateDir, "config")), config: config, stateDir: stateDir}
}

func (f Files) lastGood() string { return filepath.Join(f.stateDir, "last-good-config") }

// ReadConfig reads the config file. The name is "" if there is none.
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

// ReadLastGood reads the last good config that earlier versions wrote. The error of a missing one wraps
// fs.ErrNotExist.
func (f Files) ReadLastGood() ([]byte, error) {
	b, err := os.ReadFile(f.lastGood())
	if err != nil {
		return nil, fmt.Errorf("read last good config: %w", err)
	}
	return b, nil
}

// RemoveLastGood removes that file.
func (f Files) RemoveLastGood() error { return os.Remove(f.lastGood()) }
