package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// InjectedFault is a node's fault, which begins when it is pushed its first config, or the one of Options.FaultsAt.
type InjectedFault string

// The faults. A node does not recover from the first two while its config is unchanged, and from a hang only when it
// gets another config: its controller has to report them.
const (
	Reject     InjectedFault = "reject"     // it rejects every pushed config
	Unhealthy  InjectedFault = "unhealthy"  // its health turns bad under every pushed config
	Silent     InjectedFault = "silent"     // it accepts the config and sends nothing for SilentFor
	Crash      InjectedFault = "crash"      // it ends while it accepts the config, and boots again
	Disconnect InjectedFault = "disconnect" // its stream ends before it has answered
	Hang       InjectedFault = "hang"       // it accepts the config and sends nothing until it gets another one
	Rollback   InjectedFault = "rollback"   // it misses the confirmation, and undoes the config at the timeout
	LinkLoss   InjectedFault = "linkloss"   // it has no links for LinkLossFor; no node behind it has a stream
)

// SilentFor is how long a silent node sends nothing, BootAfter how long a crashed one is down, and LinkLossFor how long
// a node has no links.
const (
	SilentFor   = 12 * time.Second
	BootAfter   = 500 * time.Millisecond
	LinkLossFor = 10 * time.Second
)

// AllFaults lists the faults in the order of the output.
var AllFaults = []InjectedFault{Reject, Unhealthy, Silent, Crash, Disconnect, Hang, Rollback, LinkLoss}

// Fails reports whether a node with this fault never runs its desired config, as requested.
func (f InjectedFault) Fails() bool { return f == Reject || f == Unhealthy || f == Hang }

// HaltsRollout reports whether such a node counts as failed in a staged rollout: it fails, or undoes the config first.
func (f InjectedFault) HaltsRollout() bool { return f.Fails() || f == Rollback }

// FaultRates are the fractions of a fleet that have each fault, from 0 to 1.
type FaultRates map[InjectedFault]float64

// ParseFaults parses "reject=1%,crash=0.5%". It reports all errors together.
func ParseFaults(text string) (FaultRates, error) {
	out := FaultRates{}
	if text == "" {
		return out, nil
	}
	var wrong []error
	sum := 0.0
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		f := InjectedFault(name)
		percent, isPercent := strings.CutSuffix(value, "%")
		share, err := strconv.ParseFloat(percent, 64)
		_, twice := out[f]
		switch {
		case !slices.Contains(AllFaults, f):
			wrong = append(wrong, fmt.Errorf("faults: unknown fault %.40q: must be one of %s", name, words(AllFaults)))
		case twice:
			wrong = append(wrong, fmt.Errorf("faults: %s: given twice: give it once", f))
		case err != nil || !isPercent || math.IsNaN(share) || share < 0 || share > 100:
			wrong = append(wrong, fmt.Errorf("faults: %s: invalid value %.40q: must be 0%% to 100%%", f, value))
		default:
			out[f] = share / 100
			sum += share
		}
	}
	if sum > 100 {
		wrong = append(wrong,
			fmt.Errorf("faults: sum %g%%: must be at most 100%%, since a node has at most one fault", sum))
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return out, nil
}

// FaultWords lists the faults, for help texts.
func FaultWords() string { return words(AllFaults) }

func words(faults []InjectedFault) string {
	var list []string
	for _, f := range faults {
		list = append(list, string(f))
	}
	return strings.Join(list, ", ")
}

// Plan returns each node's fault, "" for most. A share above 0 is at least one node. The same seed gives the same plan.
func (f FaultRates) Plan(nodes int, seed uint64) []InjectedFault {
	plan := make([]InjectedFault, nodes)
	request := rand.New(rand.NewPCG(seed, 1)).Perm(nodes)
	for _, fault := range AllFaults {
		count := min(len(request), int(math.Ceil(f[fault]*float64(nodes)-1e-9)))
		for _, i := range request[:count] {
			plan[i] = fault
		}
		request = request[count:]
	}
	return plan
}
