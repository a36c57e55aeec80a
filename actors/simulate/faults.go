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

// Fault is what goes wrong with a node, once it is pushed a config: the first one, or the one
// that Options.FaultsAt says.
type Fault string

// The faults. Of the first two a node does not recover while nobody changes its config, of a
// hang not before it is sent another one: they are what its controller has to show.
const (
	Reject     Fault = "reject"     // it finds every pushed config faulty
	Unhealthy  Fault = "unhealthy"  // something that was good is bad under every pushed config
	Silent     Fault = "silent"     // it takes the config and says nothing for SilentFor
	Crash      Fault = "crash"      // it ends in the middle of taking it, and boots again
	Disconnect Fault = "disconnect" // its stream breaks before it has answered
	Hang       Fault = "hang"       // it takes the config and says nothing until it is sent another one
	Rollback   Fault = "rollback"   // it does not hear that the config may stay, and undoes it once its time is over
	LinkLoss   Fault = "linkloss"   // it has no link for LinkLossFor, and nobody behind it a stream
)

// SilentFor is how long a silent node says nothing, BootAfter how long a crashed one is away,
// and LinkLossFor how long one is without its links.
const (
	SilentFor   = 12 * time.Second
	BootAfter   = 500 * time.Millisecond
	LinkLossFor = 10 * time.Second
)

// AllFaults are the faults in the order in which they are told.
var AllFaults = []Fault{Reject, Unhealthy, Silent, Crash, Disconnect, Hang, Rollback, LinkLoss}

// Fails says that a node with this fault never runs what is wanted of it, as it was asked to.
func (f Fault) Fails() bool { return f == Reject || f == Unhealthy || f == Hang }

// Halts says that such a node counts as failed in a staged rollout: it fails, or undoes the
// config before it takes it.
func (f Fault) Halts() bool { return f.Fails() || f == Rollback }

// Faults are the shares of a fleet that have each fault, from 0 to 1.
type Faults map[Fault]float64

// ParseFaults reads "reject=1%,crash=0.5%". All that is wrong is told at once.
func ParseFaults(text string) (Faults, error) {
	out := Faults{}
	if text == "" {
		return out, nil
	}
	var wrong []error
	sum := 0.0
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		f := Fault(name)
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

// FaultWords are the faults, for people.
func FaultWords() string { return words(AllFaults) }

func words(faults []Fault) string {
	var list []string
	for _, f := range faults {
		list = append(list, string(f))
	}
	return strings.Join(list, ", ")
}

// Plan is each node's fault, "" for most. A share above nothing is one node at least. The
// same seed gives the same plan.
func (f Faults) Plan(nodes int, seed uint64) []Fault {
	plan := make([]Fault, nodes)
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
