// Package ipset observes, creates and destroys sets of addresses in the kernel (ipset(8)) of one network namespace
// through netlink.
//
// It never decides which sets should exist, and never touches a set without edgespan's mark: es<n>-….
package ipset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/dump"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	timeout   = 5 * time.Second
	maxNumber = 999
	// scratch is the part of the name of the set in which a network's sets are filled. A crash leaves at most one.
	scratch = "new"
)

// Sets gives access to the sets of one network namespace.
type Sets struct {
	mu    sync.Mutex // one request at a time
	sock  map[int]*nl.SocketHandle
	names *dump.Shared[map[int][]string]
}

// Open opens the namespace at a path, "" for the process's own.
func Open(netnsPath string) (*Sets, error) {
	ns := netns.None()
	if netnsPath != "" {
		var err error
		if ns, err = netns.GetFromPath(netnsPath); err != nil {
			return nil, fmt.Errorf("open namespace %s: %w", netnsPath, err)
		}
		defer ns.Close()
	}
	sock, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open ipset: %w", err)
	}
	tv := unix.NsecToTimeval(timeout.Nanoseconds())
	if err := errors.Join(sock.SetSendTimeout(&tv), sock.SetReceiveTimeout(&tv)); err != nil {
		sock.Close()
		return nil, fmt.Errorf("set up ipset: %w", err)
	}
	s := &Sets{sock: map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: {Socket: sock}}}
	s.names = dump.New(timeout, func(context.Context) (map[int][]string, error) { return s.list() })
	return s, nil
}

// Close closes the socket. The sets remain.
func (s *Sets) Close() {
	for _, sock := range s.sock {
		sock.Close()
	}
}

// Number returns the network instance number in a set's name, and whether the name is one of edgespan's: es<n>-….
func Number(name string) (int, bool) {
	rest, own := strings.CutPrefix(name, "es")
	digits, part, dash := strings.Cut(rest, "-")
	n, err := strconv.Atoi(digits)
	return n, own && dash && part != "" && err == nil && n >= 1 && n <= maxNumber && strconv.Itoa(n) == digits
}

// Numbers lists the network instance numbers that have a set.
func (s *Sets) Numbers(ctx context.Context) ([]int, error) {
	names, err := s.names.Get(ctx)
	var ns []int
	for n := range names {
		ns = append(ns, n)
	}
	return ns, err
}

// Observe lists the sets of a network instance with their entries.
func (s *Sets) Observe(ctx context.Context, number int) (netstate.State, error) {
	names, err := s.names.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list sets: %w", err)
	}
	state := netstate.State{}
	for _, name := range names[number] {
		set, err := s.read(name)
		if errors.Is(err, unix.ENOENT) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("list set %s: %w", name, err)
		}
		state.Add(set.object(name))
	}
	return state, nil
}

// Put creates or replaces a set at once: it is filled under another name first. A replaced set with a timeout keeps its
// entries.
func (s *Sets) Put(set netstate.Set) error {
	number, own := Number(set.Name)
	if !own || len(set.Name) >= nl.IPSET_MAXNAMELEN {
		return fmt.Errorf("set %q: not a name of edgespan's sets", set.Name)
	}
	temp := fmt.Sprintf("es%d-%s", number, scratch)
	if err := s.destroy(temp); err != nil {
		return fmt.Errorf("destroy set %s: %w", temp, err)
	}
	old, err := s.read(set.Name)
	exists := err == nil
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("read set %s: %w", set.Name, err)
	}
	if err := s.create(temp, set); err != nil {
		return fmt.Errorf("create set %s: %w", set.Name, err)
	}
	var entries []entry
	for _, p := range set.Entries {
		entries = append(entries, entry{prefix: p})
	}
	if set.Timeout > 0 {
		entries = old.kept(set)
	}
	if err := s.add(temp, entries); err != nil {
		return fmt.Errorf("fill set %s: %w", set.Name, errors.Join(err, s.destroy(temp)))
	}
	from, to := name(nl.IPSET_ATTR_SETNAME, temp), name(nl.IPSET_ATTR_SETNAME2, set.Name)
	if !exists {
		err = s.do(nl.IPSET_CMD_RENAME, from, to)
	} else if err = s.do(nl.IPSET_CMD_SWAP, from, to); err == nil {
		err = s.destroy(temp)
	}
	if err != nil {
		return fmt.Errorf("replace set %s: %w", set.Name, errors.Join(err, s.destroy(temp)))
	}
	return nil
}

// releaseTime is how long the kernel may take to free rules of nftables that named a set: it does so after the
// transaction that removed them, in a worker of its own (nf_tables_trans_destroy_work).
const releaseTime = time.Second

// Remove destroys a set. A missing one is no error.
func (s *Sets) Remove(set netstate.Set) error {
	if _, own := Number(set.Name); !own {
		return fmt.Errorf("set %q: not a name of edgespan's sets", set.Name)
	}
	err := s.destroy(set.Name)
	for end := time.Now().Add(releaseTime); errors.Is(err, nl.IPSetError(nl.IPSET_ERR_BUSY)) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
		err = s.destroy(set.Name)
	}
	if err != nil {
		return fmt.Errorf("destroy set %s: %w", set.Name, err)
	}
	return nil
}

func (s *Sets) destroy(set string) error {
	err := s.do(nl.IPSET_CMD_DESTROY, name(nl.IPSET_ATTR_SETNAME, set))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// list lists the names of edgespan's sets by network instance number. A kernel without ipset has none.
func (s *Sets) list() (map[int][]string, error) {
	msgs, err := s.request(nl.IPSET_CMD_LIST, number(nl.IPSET_ATTR_FLAGS, listNames))
	if errors.Is(err, errNoSupport) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	names := map[int][]string{}
	for _, m := range msgs {
		for kind, v := range attributes(m[min(len(m), nl.SizeofNfgenmsg):]) {
			if kind != nl.IPSET_ATTR_SETNAME {
				continue
			}
			set := unix.ByteSliceToString(v)
			if n, own := Number(set); own {
				names[n] = append(names[n], set)
			}
		}
	}
	for _, list := range names {
		slices.Sort(list)
	}
	return names, nil
}
