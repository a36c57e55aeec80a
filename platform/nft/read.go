package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Generation returns a number that changes with every change of the namespace's ruleset, by any program and in any
// family.
func (c *Conn) Generation() (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	kind := uint16(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN)
	if err := c.send(frame(nil, kind, 0, c.seq, genmsg(unix.AF_BRIDGE, 0))); err != nil {
		return 0, fmt.Errorf("ask for the ruleset's generation: %w", err)
	}
	for {
		msgs, err := c.receive(0)
		if err != nil {
			return 0, fmt.Errorf("ask for the ruleset's generation: %w", err)
		}
		for _, m := range msgs {
			if m.Header.Seq != c.seq {
				continue // of an earlier, abandoned request
			}
			if m.Header.Type == unix.NLMSG_ERROR {
				return 0, fmt.Errorf("ask for the ruleset's generation: %w", answer(m))
			}
			if id := attrs(m)[unix.NFTA_GEN_ID]; len(id) == 4 {
				return binary.BigEndian.Uint32(id), nil
			}
		}
	}
}

// tableOwner is the attribute NFTA_TABLE_OWNER (linux/netfilter/nf_tables.h): the socket that owns a table.
const tableOwner = 7

// claimTimeout is how long Claim waits for the end of an earlier owner, looking every claimPause.
const (
	claimTimeout = 2 * time.Second
	claimPause   = 5 * time.Millisecond
)

// Claim makes this socket the owner of the tables that an earlier process left. A child that the process was starting
// when it ended holds its socket, and so its tables, until the child's exec; Claim waits for that.
func (c *Conn) Claim(own func(Table) bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.keepsOwned() {
		return nil
	}
	for end := time.Now().Add(claimTimeout); ; time.Sleep(claimPause) {
		held, err := c.claim(own)
		if err == nil && len(held) > 0 && time.Now().After(end) {
			err = fmt.Errorf("%v have another owner: %w", held, unix.EPERM)
		}
		if err != nil {
			return fmt.Errorf("claim tables: %w", err)
		}
		if len(held) == 0 {
			return nil
		}
	}
}

// claim claims the tables that have no owner, and returns those that another socket owns. The kernel clears the flag of
// a table when its owner's socket closes.
func (c *Conn) claim(own func(Table) bool) ([]Table, error) {
	type found struct {
		batch
		held []Table
	}
	f, err := retryInterrupted(func() (found, error) {
		f := found{}
		for family, number := range families {
			err := c.dump(unix.NFT_MSG_GETTABLE, number, func(a attributeSet) {
				name := a[unix.NFTA_TABLE_NAME]
				t := Table{family, str(name)}
				switch owner := a[tableOwner]; {
				case flags(a)&flagPersist == 0 || !own(t):
				case flags(a)&flagOwner == 0:
					f.addTo(number, unix.NFT_MSG_NEWTABLE, 0, attr(unix.NFTA_TABLE_NAME, name), c.flags())
				case len(owner) != 4 || binary.BigEndian.Uint32(owner) != c.port:
					f.held = append(f.held, t)
				}
			})
			if err != nil {
				return f, err
			}
		}
		return f, nil
	})
	if err == nil && len(f.msgs) > 0 {
		err = c.commit(f.batch)
	}
	return f.held, err
}

func flags(table attributeSet) uint32 {
	if f := table[unix.NFTA_TABLE_FLAGS]; len(f) == 4 {
		return binary.BigEndian.Uint32(f)
	}
	return 0
}

var errInterrupted = errors.New("the dump was interrupted by a change")

// retryInterrupted repeats a dump that a change has interrupted.
func retryInterrupted[T any](dump func() (T, error)) (T, error) {
	for range maxTries - 1 {
		if v, err := dump(); !errors.Is(err, errInterrupted) {
			return v, err
		}
	}
	return dump()
}

// dump lists one kind of object of a family; narrow are attributes that filter the list.
func (c *Conn) dump(get uint16, family byte, add func(attributeSet), narrow ...[]byte) error {
	c.seq++
	if err := c.send(frame(nil, unix.NFNL_SUBSYS_NFTABLES<<8|get, unix.NLM_F_DUMP, c.seq,
		join(genmsg(family, 0), narrow))); err != nil {
		return err
	}
	interrupted := false
	for {
		msgs, err := c.receive(0)
		if err != nil {
			return err
		}
		for _, m := range msgs {
			if m.Header.Seq != c.seq {
				continue
			}
			interrupted = interrupted || m.Header.Flags&unix.NLM_F_DUMP_INTR != 0
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				if interrupted {
					return errInterrupted
				}
				return nil
			case unix.NLMSG_ERROR:
				return answer(m)
			}
			add(attrs(m))
		}
	}
}

// attrs returns the attributes of an nfnetlink message.
func attrs(m syscall.NetlinkMessage) attributeSet {
	if len(m.Data) < 4 {
		return attributeSet{}
	}
	return attributes(m.Data[4:])
}

// attributeSet holds attributes by type; all that are read here have a lower one than its length. It is no map, as a
// counter that is read each minute has ten of them.
type attributeSet [32][]byte

// attributes returns attributes by type; the last one of a type counts.
func attributes(b []byte) (found attributeSet) {
	eachAttribute(b, func(kind uint16, data []byte) {
		if int(kind) < len(found) {
			found[kind] = data
		}
	})
	return found
}

// eachAttribute iterates over consecutive attributes and stops at a truncated one.
func eachAttribute(b []byte, f func(kind uint16, data []byte)) {
	for len(b) >= 4 {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[4:n])
		b = b[min(len(b), (n+3)&^3):]
	}
}

func str(b []byte) string { return strings.TrimSuffix(string(b), "\x00") }
