package doctor

import (
	"fmt"
	"strings"

	"edgespan/netinst/netstate"
)

// outdated finds running dnsmasqs that an upgrade of the package has not reached, since they outlive the upgrade. One
// that is ended restarts at once with the installed program.
func outdated(f netstate.Facts, _ Node) []Finding {
	if len(f.Outdated) == 0 {
		return nil
	}
	pids := make([]string, len(f.Outdated))
	for i, pid := range f.Outdated {
		pids[i] = fmt.Sprint(pid)
	}
	return []Finding{{
		Level: Warning,
		Text:  fmt.Sprintf("%d dnsmasq processes run a program that was replaced after they started", len(pids)),
		Fix:   "for pid in " + strings.Join(pids, " ") + "; do kill $pid; sleep 5; done # each is started again at once",
	}}
}
