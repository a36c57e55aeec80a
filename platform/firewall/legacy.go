package firewall

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"edgespan/platform/proc"
)

// legacy detects changes of the legacy backend's tables by others. The kernel sends no notification of them, but
// polling needs no process: IPT_SO_GET_INFO (a table's number of entries, size and offsets of the built-in chains)
// takes microseconds; IPT_SO_GET_ENTRIES (the table, of which a hash is kept) takes 22 ms for 10,000 rules and is
// therefore polled less often. The first does not detect a rule replaced by one of the same size.
type legacy struct {
	mu   sync.Mutex // excludes polling during edgespan's restores
	fd   int
	on   bool // the tables are polled
	left [3]legacyTable
	next time.Time // when the rules of the tables may be read again
}

// legacyTable is the state of a table as read without a process.
type legacyTable struct {
	info tableInfo
	sum  uint64 // hash of its rules without their counters; 0 for a table that is too large to read
}

// tableInfo is struct ipt_getinfo (linux/netfilter_ipv4/ip_tables.h).
type tableInfo struct {
	name             [32]byte
	hooks            uint32
	entry, underflow [5]uint32
	entries, size    uint32
}

// Socket options of the kernel (linux/netfilter_ipv4/ip_tables.h) and offsets in their answers: struct ipt_get_entries
// begins with the name and the size; each struct ipt_entry has the offset of the next entry and its counters.
const (
	iptGetInfo    = 64 // IPT_SO_GET_INFO
	iptGetEntries = 65 // IPT_SO_GET_ENTRIES

	entriesHead   = 40
	entryNext     = 90
	entryCounters = 96
	entryHead     = 112

	// maxLegacyTable bounds the table size that is read: a table of 4 MB has some 12,000 rules. In a larger table, the
	// full observation of each minute finds replaced rules.
	maxLegacyTable = 4 << 20
	// legacyShare limits reading the tables to a hundredth of the time.
	legacyShare = 100
)

// open starts polling. It takes the current tables as correct.
func (l *legacy) open(run *proc.Runner) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := run.In(func() (err error) {
		l.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		return err
	})
	if err != nil {
		return fmt.Errorf("open the legacy tables: %w", err)
	}
	if l.left, err = l.read(true); err != nil {
		unix.Close(l.fd)
		return err
	}
	l.on = true
	return nil
}

func (l *legacy) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on {
		unix.Close(l.fd)
		l.on = false
	}
}

// changed reports whether others changed a table since edgespan last wrote or read it.
func (l *legacy) changed() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	began := time.Now()
	rules := !began.Before(l.next)
	now, err := l.read(rules)
	if rules {
		l.next = time.Now().Add(legacyShare * time.Since(began))
	}
	changed := err == nil && now != l.left
	if changed {
		l.left = now
	}
	return changed, err
}

// writing runs a function that changes the tables, so that the change doesn't count as one by others.
func (l *legacy) writing(write func() error) error {
	l.mu.Lock()
	if !l.on { // not polled: a hanging command must block no other
		l.mu.Unlock()
		return write()
	}
	defer l.mu.Unlock()
	before, unread := l.read(true)
	err := write()
	if before == l.left && unread == nil { // otherwise the next poll reports it
		if now, unread := l.read(true); unread == nil {
			l.left = now
		}
	}
	return err
}

// read reads the tables; without rules, it takes the hash of the last read.
func (l *legacy) read(rules bool) (all [3]legacyTable, err error) {
	for i, name := range tableOrder {
		if all[i], err = l.table(name, rules); err != nil {
			return all, err
		}
		if !rules {
			all[i].sum = l.left[i].sum
		}
	}
	return all, nil
}

// table reads one table. If the table changes between the two requests, the kernel refuses the second, and both are
// repeated.
func (l *legacy) table(name string, rules bool) (t legacyTable, err error) {
	const tries = 3
	for range tries {
		t = legacyTable{}
		copy(t.info.name[:], name)
		size := uint32(unsafe.Sizeof(t.info))
		errno := l.ask(iptGetInfo, unsafe.Pointer(&t.info), &size)
		if errors.Is(errno, unix.ENOENT) { // the table is not in use yet
			return t, nil
		} else if errno != 0 {
			return t, fmt.Errorf("ask for table %s: %w", name, errno)
		}
		if !rules || t.info.size == 0 || t.info.size > maxLegacyTable {
			return t, nil
		}
		buf := make([]byte, entriesHead+int(t.info.size))
		copy(buf, name)
		binary.NativeEndian.PutUint32(buf[len(t.info.name):], t.info.size)
		size = uint32(len(buf))
		if errno = l.ask(iptGetEntries, unsafe.Pointer(&buf[0]), &size); errno == 0 {
			t.sum = sumEntries(buf[entriesHead:])
			return t, nil
		} else if !errors.Is(errno, unix.EAGAIN) {
			return t, fmt.Errorf("read table %s: %w", name, errno)
		}
	}
	return t, nil // it keeps changing: the info suffices to detect that
}

func (l *legacy) ask(what uintptr, to unsafe.Pointer, size *uint32) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(l.fd), unix.IPPROTO_IP, what, uintptr(to),
		uintptr(unsafe.Pointer(size)), 0)
	return errno
}

// sumEntries hashes a table's entries without their counters.
func sumEntries(entries []byte) uint64 {
	h := fnv.New64a()
	for len(entries) >= entryHead {
		next := int(binary.NativeEndian.Uint16(entries[entryNext:]))
		if next < entryHead || next > len(entries) {
			break
		}
		_, _ = h.Write(entries[:entryCounters])
		_, _ = h.Write(entries[entryHead:next])
		entries = entries[next:]
	}
	_, _ = h.Write(entries)
	return h.Sum64()
}
