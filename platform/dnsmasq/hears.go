package dnsmasq

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// hasReadAll reports whether a process that did not answer has read every query that reached it: it listens at p's
// address and its socket has no unread data. Then the query or the answer was lost on the way, for example because
// the machine can track no more flows, and a replacement would not help. A process that hangs leaves queries unread.
func hasReadAll(id proc.Ident, p netstate.Probe) bool {
	addr, err := netip.ParseAddrPort(p.Addr)
	if err != nil || !id.Alive() {
		return false
	}
	table, err := os.Open(fmt.Sprintf("/proc/%d/net/udp", id.Pid)) // of the process's namespace
	if err != nil {
		return false
	}
	defer table.Close()
	inode, waiting, found := socketAt(table, addr)
	return found && !waiting && holds(id.Pid, inode)
}

// socketAt finds the UDP socket of an address in /proc/net/udp (proc(5)), and reports whether it has unread data.
func socketAt(table io.Reader, addr netip.AddrPort) (inode string, waiting, found bool) {
	ip := addr.Addr().AsSlice()
	slices.Reverse(ip) // in host order, which is little-endian on all supported machines
	local := fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(ip)), addr.Port())
	for s := bufio.NewScanner(table); s.Scan(); {
		// sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …
		f := strings.Fields(s.Text())
		if len(f) < 10 || f[1] != local {
			continue
		}
		_, rx, _ := strings.Cut(f[4], ":")
		return f[9], strings.Trim(rx, "0") != "", true
	}
	return "", false, false
}

// holds reports whether a process has a socket open.
func holds(pid int, inode string) bool {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(folder)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		to, _ := os.Readlink(folder + "/" + e.Name())
		return to == "socket:["+inode+"]"
	})
}
