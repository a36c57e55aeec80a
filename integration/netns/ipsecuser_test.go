package netns_test

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

// A charon speaks with strangers: once it has its sockets, it is a user without files of its own, and may change neither
// its record nor any file but its list of DNS servers.
func TestACharonIsNotRoot(t *testing.T) {
	t.Parallel()
	u, err := user.Lookup(netstate.VPNUser)
	if err != nil {
		t.Skipf("no user for tunnels: %v", err)
	}
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	l.put(l.vpn(1))
	l.up()
	l.carries()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.charonPID(3)))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "Uid:\t" + u.Uid + "\t" + u.Uid + "\t" + u.Uid,
		"Gid:\t" + u.Gid + "\t" + u.Gid + "\t" + u.Gid} {
		if !strings.Contains(string(status), line) {
			t.Errorf("no %q in\n%s", line, status)
		}
	}
	const most = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_NET_RAW
	for _, set := range []string{"CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		_, rest, _ := strings.Cut(string(status), set+":\t")
		line, _, _ := strings.Cut(rest, "\n")
		if caps, err := strconv.ParseUint(line, 16, 64); err != nil || caps&^most != 0 {
			t.Errorf("%s is %s: %v", set, line, err)
		}
	}
	folder := filepath.Join(l.dir, "run", "ni", "3", "vpn")
	err = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		owner := fmt.Sprint(info.Sys().(*syscall.Stat_t).Uid)
		name, _ := filepath.Rel(folder, path)
		if own := name == "own" || strings.HasPrefix(name, "own/"); own != (owner == u.Uid) {
			t.Errorf("%s is of user %s", name, owner)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A broken charon may put a link to another's control socket in place of its own: that other gets no secret, the status
// says so, and the charon is replaced.
func TestACharonCanNotSendTheDaemonElsewhere(t *testing.T) {
	t.Parallel()
	l := newIPsecLab(t)
	l.startSwan(swanPSK(ipsecSecret, "", ""))
	v := l.vpn(1)
	l.put(v)
	l.up()
	pid, socket := l.charonPID(3), filepath.Join(l.dir, "run", "ni", "3", "vpn", "own", "vici")
	if err := errors.Join(os.Remove(socket), os.Symlink(filepath.Join(l.swan.dir, "vici"), socket)); err != nil {
		t.Fatal(err)
	}
	l.fails(time.Now(), "not charon's own", "a link")
	select {
	case <-l.tunnels.Ended():
	case <-time.After(ipsecTimeout):
		t.Fatal("it is not told as ended")
	}
	v.Generation++
	l.put(v)
	if l.charonPID(3) == pid {
		t.Error("it is not replaced")
	}
	l.up()
	l.carries()
}
