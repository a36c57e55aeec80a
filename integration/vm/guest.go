package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The guest's serial lines: the kernel's messages, what the tests print, and their exit code.
const (
	outputLine = "/dev/ttyS1"
	resultLine = "/dev/ttyS2"
)

// guestMain is the guest's first process: it makes the root, runs the job, and switches the guest off.
func guestMain() {
	code, err := runJob()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm: guest:", err)
	} else if err := writeLine(resultLine, fmt.Sprintln(code)); err != nil {
		fmt.Fprintln(os.Stderr, "vm: guest:", err)
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

func runJob() (exitCode int, err error) {
	text, err := os.ReadFile("/" + jobFile)
	if err != nil {
		return 0, err
	}
	var j job
	if err := json.Unmarshal(text, &j); err != nil {
		return 0, err
	}
	if err := errors.Join(loadModules(), makeRoot(), mountAll(j.Modules)); err != nil {
		return 0, err
	}
	out, err := openRaw(outputLine)
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(j.Argv[0], j.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = j.Dir, j.Env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	// The tests' own limit prints where each of them is; this one is for tests that do not answer to it.
	kill := time.AfterFunc(j.Limit+30*time.Second, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	err = reap(cmd.Process.Pid, &exitCode)
	return exitCode, errors.Join(err, drain(out))
}

// reap waits for a process and for all that are left to the first process, until that one has ended.
func reap(pid int, exitCode *int) error {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case got == pid:
			*exitCode = status.ExitStatus() // -1: killed
			return nil
		}
	}
}

func loadModules() error {
	names, err := filepath.Glob("/" + moduleGlob)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := unix.InitModule(text, ""); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}

// A mount is one call of mount(2).
type mount struct{ source, target, fsType, options string }

func (m mount) do() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.source, m.target, m.fsType, 0, m.options); err != nil {
		return fmt.Errorf("mount %s: %w", m.target, err)
	}
	return nil
}

// makeRoot makes the host's root, with a layer in memory, the root of all processes.
func makeRoot() error {
	// The host's files do not change while the guest is up, or the guest need not see it: all is cached.
	for _, m := range []mount{
		{"root", "/host", "9p", "trans=virtio,version=9p2000.L,cache=loose,msize=512000,ro"},
		{"memory", "/memory", "tmpfs", "mode=755"},
	} {
		if err := m.do(); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/memory/upper", "/memory/work"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	m := mount{"root", "/root", "overlay", "lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work"}
	if err := m.do(); err != nil {
		return err
	}
	if err := unix.Chdir("/root"); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	// The kernel's own calls of modprobe share this root.
	return errors.Join(unix.Chroot("."), unix.Chdir("/"))
}

func mountAll(modules string) error {
	for _, m := range []mount{{"proc", "/proc", "proc", ""}, {"sysfs", "/sys", "sysfs", ""},
		{"devtmpfs", "/dev", "devtmpfs", ""}, {"devpts", "/dev/pts", "devpts", ""}, {"shm", "/dev/shm", "tmpfs", ""},
		{"run", "/run", "tmpfs", "mode=755"}, {"tmp", "/var/tmp", "tmpfs", "mode=1777"},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", ""}} {
		if err := m.do(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll("/lib/modules", 0o755); err != nil {
		return err
	}
	if err := os.Symlink(modules, filepath.Join("/lib/modules", filepath.Base(modules))); err != nil {
		return err
	}
	return errors.Join(makeTunNode(), setLoopbackUp())
}

// makeTunNode makes the node that loads the module tun when it is opened; on other machines, udev or kmod makes it.
func makeTunNode() error {
	if err := os.MkdirAll("/dev/net", 0o755); err != nil {
		return err
	}
	const tunNode = "/dev/net/tun"
	err := unix.Mknod(tunNode, unix.S_IFCHR|0o666, int(unix.Mkdev(10, 200))) // linux/miscdevice.h: TUN_MINOR
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make %s: %w", tunNode, err)
	}
	return nil
}

// setLoopbackUp makes 127.0.0.1 work, as on any machine that has started.
func setLoopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo)
}

// openRaw opens a serial line on which each byte arrives as it is written.
func openRaw(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	raw := &unix.Termios{Cflag: unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200}
	return f, unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, raw)
}

func writeLine(path, text string) error {
	f, err := openRaw(path)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return drain(f)
}

// drain waits until a serial line has sent all.
func drain(f *os.File) error {
	for {
		// Go's runtime interrupts threads by signals, and the kernel does not start this call anew.
		if err := unix.IoctlSetInt(int(f.Fd()), unix.TCSBRK, 1); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
