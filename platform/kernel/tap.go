package kernel

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// tunDevice is the device that creates tun and tap devices; netlink can't create them.
const tunDevice = "/dev/net/tun"

// linkOwner returns the network instance number of one of edgespan's links, from its name or, for a tap device with a
// custom name, from the default name that its alias records.
func linkOwner(name, alias string) (int, bool) {
	if n, ok := LinkNumber(name); ok {
		return n, true
	}
	if !strings.HasPrefix(alias, aliasMark+"ni ") || strings.HasPrefix(name, doomedPrefix) {
		return 0, false
	}
	for _, word := range strings.Fields(alias) {
		if own, ok := strings.CutPrefix(word, "link="); ok {
			return LinkNumber(own)
		}
	}
	return 0, false
}

// LinkOwner returns linkOwner of a desired link.
func LinkOwner(l netstate.Link) (int, bool) { return linkOwner(l.Name, l.Alias) }

// addTap creates a persistent tap device owned by root. A device with a custom name carries a default name of
// edgespan's until its alias is set, so a crash leaves no unmarked device. No adapter has the number 0.
func (k *Kernel) addTap(l netstate.Link) error {
	n, _ := linkOwner(l.Name, l.Alias)
	at := l
	if _, plain := LinkNumber(l.Name); !plain {
		at.Name = fmt.Sprintf("es%da0", n)
		if left, err := k.linkByName(at.Name); err == nil {
			if err := k.h.LinkDel(left); err != nil && !isNotFound(err) {
				return fmt.Errorf("delete %s, left by a crash: %w", at.Name, err)
			}
		}
	}
	if err := proc.In(k.path, func() error { return makeTap(at.Name) }); err != nil {
		return err
	}
	if at.Name == l.Name {
		return nil // the caller completes it
	}
	if err := k.finish(at); err != nil {
		return k.undo(at.Name, err)
	}
	made, err := k.linkByName(at.Name)
	if err != nil {
		return err
	}
	if err := k.h.LinkSetName(made, l.Name); err != nil {
		return k.undo(at.Name, fmt.Errorf("name it %s: %w", l.Name, err))
	}
	return nil
}

// undo deletes a link that could not be set up.
func (k *Kernel) undo(name string, err error) error {
	if made, e := k.linkByName(name); e == nil {
		err = errors.Join(err, k.h.LinkDel(made))
	}
	return err
}

func makeTap(name string) error {
	f, err := os.OpenFile(tunDevice, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", tunDevice, err)
	}
	defer f.Close()
	req, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_TUN_EXCL)
	fd := int(f.Fd())
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return fmt.Errorf("make tap device: %w", err)
	}
	// Until it is persistent, the device disappears when its file is closed.
	if err := unix.IoctlSetInt(fd, unix.TUNSETOWNER, 0); err != nil {
		return fmt.Errorf("give tap device to root: %w", err)
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1); err != nil {
		return fmt.Errorf("make tap device persist: %w", err)
	}
	return nil
}

// linkType returns the type a link was created with.
func linkType(l netlink.Link) netstate.LinkType {
	if t, ok := l.(*netlink.Tuntap); ok {
		if t.Mode == netlink.TUNTAP_MODE_TUN {
			return "tun"
		}
		return netstate.Tap
	}
	return netstate.LinkType(l.Type())
}
