package controller

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"edgespan/config/fleet/bisect"
)

// Whatever happens during a search, it ends, names no revision that is innocent, and leaves the canary in sync and
// confirmed with what it should have then.
func TestASearchInBadWeatherLeavesTheCanaryInSync(t *testing.T) {
	results := map[string]int{}
	for seed := range uint64(10) {
		onRig(t, func(r *rig) { stormySearch(r, rand.New(rand.NewPCG(seed, 24)), fmt.Sprint("seed ", seed), results) })
	}
	if results[bisect.Found] == 0 {
		t.Errorf("%v", results)
	}
}

func stormySearch(r *rig, random *rand.Rand, seed string, results map[string]int) {
	r.Helper()
	staged := random.IntN(2) == 0
	r.change = func(o *Options) {
		o.Flags = map[string]string{"config_staged_rollout_enabled": fmt.Sprint(staged)}
	}
	names := []string{"a", "b"}
	at := map[string]*Controller{"a": r.start("a"), "b": r.start("b")}
	n, other := r.node(at["a"], "pop"), r.node(at["b"], "other")
	sick := random.IntN(14) + 1
	numbers := r.sixteen(at["a"], sick)
	r.pass(10 * time.Minute)
	n.set(func() { n.sick = "SICK" })
	for _, name := range names {
		if n.to == at[name] {
			r.wants(at[name], "pop", "InSync")
		}
	}
	r.bisect(at["a"], bisect.Request{Nodes: []string{"pop"}, Good: numbers[0], Bad: numbers[15],
		TimeoutS: 20 + random.IntN(100), SettleS: 5})
	r.pass(time.Duration(random.IntN(5)) * time.Second)
	var log []string
	for range 1 + random.IntN(8) {
		name := names[random.IntN(2)]
		switch what := random.IntN(8); what {
		case 0:
			n.cut()
			log = append(log, "cut")
		case 1:
			n.lose()
			log = append(log, "lose")
		case 2, 3:
			if at[name] != nil && len(r.replicas) > 1-what%2 {
				r.stop(name)
				at[name] = nil
				log = append(log, "stop "+name)
			}
		case 4:
			n.cut()
			if at[name] != nil {
				n.connect(at[name])
				log = append(log, "connect "+name)
			}
		case 5:
			if at[name] != nil && random.IntN(3) == 0 {
				err := at[name].AbortBisect(r.Context(), alice, "pop")
				log = append(log, fmt.Sprint("abort ", err))
			}
		case 6:
			if at[name] != nil {
				r.network(at[name], fmt.Sprintf(`{"envParams":{"N":"new %d"}}`, random.IntN(100)))
				log = append(log, "network")
			}
		case 7:
			if at[name] == nil {
				at[name] = r.start(name)
				log = append(log, "start "+name)
			}
		}
		r.pass(time.Duration(random.IntN(30)) * time.Second)
		if !n.online() && random.IntN(2) == 0 && at[name] != nil {
			n.connect(at[name])
			log = append(log, "reconnect "+name)
		}
		r.pass(time.Duration(random.IntN(10)) * time.Second)
	}
	for _, name := range names {
		if at[name] == nil {
			at[name] = r.start(name)
		}
	}
	r.pass(time.Minute)
	for _, one := range []*fakeNode{n, other} {
		if !one.online() {
			one.connect(at["a"])
		}
	}
	b := r.searched(at["b"], 3*time.Hour)
	results[b.State]++
	// A node that was cut off for longer than a test is bad with it, by the test's own rule.
	offline := strings.Contains(strings.Join(steps(b), "\n"), "went offline")
	if b.First != 0 && b.First != numbers[sick] && !offline {
		r.Errorf("%s: %s: %+v\n%s", seed, strings.Join(log, ", "), b, strings.Join(steps(b), "\n"))
	}
	r.pass(time.Hour)
	n.mu.Lock()
	to, pending := n.to, n.pending
	n.mu.Unlock()
	state, why := r.state(to, "pop")
	if pending != nil || state != "InSync" {
		r.Errorf("%s: %s: the canary is %s, pending %+v: %s\n%+v", seed, strings.Join(log, ", "), state, pending, why, b)
	}
}
