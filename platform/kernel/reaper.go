package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	doomedPrefix = "es-doomed"
	doomedGroup  = 20101 // link group of links waiting for deletion
	doomedAlias  = "edgespan doomed"
	aliasMark    = "edgespan "
	gather       = 20 * time.Millisecond
	// reapTimeout limits one deletion: the kernel takes 17 s for a thousand bridges.
	reapTimeout = time.Minute
)

// reaper deletes links. Each deletion waits 15 to 40 ms in the kernel, and deleting a group waits only once, so
// concurrent removals are batched.
type reaper struct {
	k    *Kernel
	rt   raw // own socket: a deletion must not block other requests
	mu   sync.Mutex
	next *harvest // nil without a waiting caller
	wg   sync.WaitGroup
}

type harvest struct {
	done chan struct{}
	err  error
}

func newReaper(k *Kernel) (*reaper, error) {
	rt, err := k.openRaw(reapTimeout)
	if err != nil {
		return nil, err
	}
	r := &reaper{k: k, rt: rt}
	if err := r.deleteDoomed(); err != nil {
		r.close()
		return nil, fmt.Errorf("delete doomed links: %w", err)
	}
	return r, nil
}

func (r *reaper) close() {
	r.wg.Wait()
	r.rt.close()
}

// reap dooms links and waits until they are gone.
func (r *reaper) reap(ctx context.Context, links []netlink.Link) error {
	var errs []error
	doomed := false
	for _, l := range links {
		err := r.doom(l)
		if err != nil && !isNotFound(err) {
			errs = append(errs, fmt.Errorf("doom link %s: %w", l.Attrs().Name, err))
		}
		doomed = doomed || err == nil
	}
	if doomed {
		errs = append(errs, r.await(ctx))
	}
	return errors.Join(errs...)
}

// await waits for the next deletion of the doomed group.
func (r *reaper) await(ctx context.Context) error {
	r.mu.Lock()
	if r.next == nil {
		r.next = &harvest{done: make(chan struct{})}
		r.wg.Add(1)
		time.AfterFunc(gather, r.harvest)
	}
	h := r.next
	r.mu.Unlock()
	select {
	case <-h.done:
		return h.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *reaper) harvest() {
	defer r.wg.Done()
	r.mu.Lock()
	h := r.next
	r.next = nil
	r.mu.Unlock()
	h.err = r.deleteDoomed()
	close(h.done)
}

// doom sets a link down, frees its name and puts it into the doomed group. The alias remains as edgespan's mark.
func (r *reaper) doom(l netlink.Link) error {
	if l.Attrs().Flags&net.FlagUp != 0 {
		if err := r.k.rest(l); err != nil {
			return err
		}
	}
	index := l.Attrs().Index
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	var err error = unix.EEXIST
	for zeros := 0; errors.Is(err, unix.EEXIST); zeros++ {
		name := doomedName(index, zeros)
		if len(name) >= unix.IFNAMSIZ {
			return fmt.Errorf("rename to %s: %w", doomedName(index, 0), err)
		}
		attrs := []nl.NetlinkRequestData{
			msg,
			nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)),
			nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(doomedGroup)),
		}
		if !strings.HasPrefix(l.Attrs().Alias, aliasMark) { // half created
			attrs = append(attrs, nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(doomedAlias)))
		}
		err = r.k.rt.do(unix.RTM_SETLINK, 0, attrs...)
	}
	return err
}

// doomedName returns a name that is unique among edgespan's links and fits the kernel's 15 octets: an index is below
// 2^31, which takes six digits in base 36. Leading zeros make another name if a foreign link already has this one.
func doomedName(index, zeros int) string {
	return doomedPrefix + strings.Repeat("0", zeros) + strconv.FormatInt(int64(index), 36)
}

// deleteDoomed deletes the doomed group in one request if every member is edgespan's. If a foreign link uses the group
// number, it deletes edgespan's links one by one.
func (r *reaper) deleteDoomed() error {
	links, err := retry(r.k.h.LinkList)
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	var own []netlink.Link
	foreign := false
	for _, l := range links {
		a := l.Attrs()
		owned := strings.HasPrefix(a.Name, doomedPrefix) && strings.HasPrefix(a.Alias, aliasMark)
		if owned {
			own = append(own, l)
			// A crash between the steps of doom can leave the group unset.
			foreign = foreign || a.Group != doomedGroup
		} else if a.Group == doomedGroup {
			foreign = true
		}
	}
	if len(own) == 0 {
		return nil
	}
	if !foreign {
		err := r.rt.do(unix.RTM_DELLINK, 0, nl.NewIfInfomsg(unix.AF_UNSPEC),
			nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(doomedGroup)))
		if err == nil || errors.Is(err, unix.ENODEV) {
			return nil
		}
		return fmt.Errorf("delete link group: %w", err)
	}
	for _, l := range own {
		if err := r.k.h.LinkDel(l); err != nil && !isNotFound(err) {
			return fmt.Errorf("delete link %s: %w", l.Attrs().Name, err)
		}
	}
	return nil
}
