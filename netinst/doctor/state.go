package doctor

import (
	"fmt"
	"slices"

	"edgespan/netinst/netstate"
)

// State is the health of a node's state folder, and the problems found at startup.
type State struct {
	Fault   string   // why changes are not on the disk; "" if all are
	Unsaved int      // number of changes in memory only
	Tight   bool     // there is no space for the reserve
	Found   []string // what the start found damaged or missing
	Base    bool     // the config is a fallback, and removes nothing
	Warning string   // from the start, about the lock
}

const stateDir = "/var/lib/edgespan"

func stateFolder(_ netstate.Facts, n Node) []Finding {
	var out []Finding
	s := n.State
	if s.Fault != "" {
		out = append(out, Finding{
			Level: Problem, Text: fmt.Sprintf("not journalled: the disk refuses %d changes, which a restart would lose: %s",
				s.Unsaved, s.Fault),
			Fix: "df -h " + stateDir + " && df -i " + stateDir +
				" # make room, or mount it writable: the daemon goes on by itself",
		})
	} else if s.Tight {
		out = append(out, Finding{
			Level: Warning, Text: "the disk of the state folder is nearly full: there is no room for the reserve",
			Fix: "df -h " + stateDir + " # make some MB of room",
		})
	}
	for _, text := range s.Found {
		out = append(out, Finding{
			Level: Problem, Text: "at its start the daemon found: " + text,
			Fix: "ls -l " + stateDir +
				"/*.corrupt-* && smartctl -H /dev/DISK # see whether the disk fails; said until the next start",
		})
	}
	if s.Base && len(s.Found) > 0 {
		out = append(out, Finding{
			Level: Problem, Text: "the node's config is lost: what stands on the host is left as it is",
			Fix: "edgespan apply -f FILE",
		})
	}
	return out
}

func lock(_ netstate.Facts, n Node) []Finding {
	if n.State.Warning == "" {
		return nil
	}
	return []Finding{{Level: Problem, Text: n.State.Warning,
		Fix: "ss -xlp | grep edgespan-node # and end what is no daemon"}}
}

// helpers finds helpers of an earlier release, which run until they are replaced, and helpers whose user the machine
// lacks.
func helpers(f netstate.Facts, _ Node) []Finding {
	var out []Finding
	if len(f.Helpers) > 0 && !f.HelperUser {
		out = append(out, Finding{
			Level: Warning, Text: "there is no user edgespan-dns: dnsmasq runs as a user that it shares with other programs",
			Fix: "useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin edgespan-dns",
		})
	}
	var old []int
	for _, h := range f.Helpers {
		if !h.NoNewPrivs || f.HelperUser && !h.OwnUser {
			old = append(old, h.PID)
		}
	}
	if slices.Sort(old); len(old) > 0 {
		out = append(out, Finding{
			Level: Warning, Text: fmt.Sprintf("%d dnsmasqs run as an earlier release or without the user started them, the "+
				"first as pid %d", len(old), old[0]),
			Fix: fmt.Sprintf("kill %d # it is started again within a second, confined", old[0]),
		})
	}
	return out
}
