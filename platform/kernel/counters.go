package kernel

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// linkCounters is where the kernel lists the counters of all links in one reading, without a lock that writers take.
const linkCounters = "/proc/thread-self/net/dev"

// LinkCounters reads the counters of all links, by name.
func (k *Kernel) LinkCounters() (counters map[string]netstate.LinkCounters, err error) {
	var text []byte
	err = proc.In(k.path, func() (err error) {
		text, err = os.ReadFile(linkCounters)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the counters of links: %w", err)
	}
	return parseLinkCounters(string(text)), nil
}

// parseLinkCounters parses proc_pid_net(5) dev: two lines of headings, then "name: 16 numbers". A line of another form
// is left out: a name may have any character but a space and a slash, and so also colons.
func parseLinkCounters(text string) map[string]netstate.LinkCounters {
	out := map[string]netstate.LinkCounters{}
	for line := range strings.Lines(text) {
		end := strings.LastIndexByte(line, ':')
		if end < 0 {
			continue
		}
		var n [16]uint64
		i := 0
		for field := range strings.FieldsSeq(line[end+1:]) {
			v, err := strconv.ParseUint(field, 10, 64)
			if err != nil || i == len(n) {
				i = 0
				break
			}
			n[i] = v
			i++
		}
		if i == len(n) {
			out[strings.TrimSpace(line[:end])] = netstate.LinkCounters{
				Received: netstate.LinkTraffic{Bytes: n[0], Packets: n[1], Errors: n[2], Drops: n[3]},
				Sent:     netstate.LinkTraffic{Bytes: n[8], Packets: n[9], Errors: n[10], Drops: n[11]},
			}
		}
	}
	return out
}
