package simulation

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// plan is what happens to a node, in order of time.
type plan []step

// step is one thing that happens.
type step struct {
	at     time.Duration // since the start of the plan
	verb   string
	number uint64 // everything else is drawn from it
}

func (s step) String() string { return fmt.Sprintf("%v %s %d", s.at, s.verb, s.number) }

func (p plan) String() string {
	var b strings.Builder
	for _, s := range p {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// parsePlan reads what String has written, with these verbs. Empty lines, and those that begin with #, are left out.
func parsePlan(text string, known []string) (p plan, err error) {
	for in := bufio.NewScanner(strings.NewReader(text)); in.Scan(); {
		line := strings.TrimSpace(in.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.Fields(line)
		if len(words) != 3 {
			return nil, fmt.Errorf("%q: must be TIME VERB NUMBER", line)
		}
		var s step
		if s.at, err = time.ParseDuration(words[0]); err != nil {
			return nil, err
		}
		if s.verb = words[1]; !slices.Contains(known, s.verb) {
			return nil, fmt.Errorf("%q: must be one of %v", s.verb, known)
		}
		if s.number, err = strconv.ParseUint(words[2], 10, 64); err != nil {
			return nil, err
		}
		p = append(p, s)
	}
	return p, nil
}

// The times between two steps, of all sizes alike: some things happen at once, and some after everything has settled.
const (
	shortest = 10 * time.Millisecond
	longest  = 10 * time.Minute
)

// draw returns a random plan of these verbs, which begins with the one that gives a config and has it in every three
// steps.
func draw(seed uint64, steps int, names []string, gives string) (p plan) {
	rng := rand.New(rand.NewPCG(seed, 0))
	at := time.Duration(0)
	for i := range steps {
		verb := names[rng.IntN(len(names))]
		if i == 0 || rng.IntN(3) == 0 {
			verb = gives
		}
		p = append(p, step{at, verb, rng.Uint64N(1e6)})
		spread := math.Log(float64(longest) / float64(shortest))
		at += time.Duration(float64(shortest) * math.Exp(rng.Float64()*spread)).Round(shortest)
	}
	return p
}

// shorten returns a plan with fewer steps that fails, too, after at most that many runs.
func shorten(p plan, tries int, fails func(plan) bool) plan {
	for part := (len(p) + 1) / 2; part > 0 && tries > 0; {
		shorter := false
		for from := 0; from < len(p) && tries > 0; from += part {
			without := slices.Concat(p[:from], p[min(from+part, len(p)):])
			if tries--; len(without) > 0 && fails(without) {
				p, shorter = without, true
				from -= part
			}
		}
		if !shorter {
			part /= 2
		}
	}
	return p
}
