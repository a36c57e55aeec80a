package simulation

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	plans = flag.Int("plans", 16, "random plans of nodes; of fleets a quarter, of clusters and of rollouts a sixteenth as many")
	seed  = flag.Uint64("seed", 1, "seed of the first plan")
	steps = flag.Int("steps", 30, "steps of a plan; those of rollouts have a third as many")
	tries = flag.Int("tries", 40, "runs by which a plan that fails is shortened")
)

// TestMain makes garbage collection rarer: each town is small, and is thrown away soon.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// Whatever happens to a node, it never stands still, it has what its config says soon after the surroundings work
// again, a restart does nothing, and an empty config leaves nothing.
func TestNodesInAnyWeather(t *testing.T) { inAnyWeather(t, ofNodes(), *plans, *steps) }

// Whatever happens to a fleet, its nodes and its controllers, each node has what its layers say soon after the
// surroundings work again, each replica knows it, and empty layers leave nothing.
func TestFleetsInAnyWeather(t *testing.T) { inAnyWeather(t, ofFleets(), (*plans+3)/4, *steps) }

// Whatever happens to a fleet in which changes are rolled out in stages, no change reaches more nodes than its batch
// before others have confirmed it, one that no node can keep reaches the canary alone and is undone there, and in the
// end each node has what its layers say.
func TestRolloutsInAnyWeather(t *testing.T) { inAnyWeather(t, ofStaged(), (*plans+15)/16, *steps/3) }

// Whatever happens to a fleet with a cluster, whose nodes leave, are forgotten and join again, each member soon has a
// bridge, its link and a tunnel to each other one that it is to reach, and others have nothing of it.
func TestClustersInAnyWeather(t *testing.T) { inAnyWeather(t, ofClusters(), (*plans+15)/16, *steps) }

// Plans that have failed once, with the product or with a broken one.
func TestNodesInKnownWeather(t *testing.T)    { inKnownWeather(t, ofNodes()) }
func TestFleetsInKnownWeather(t *testing.T)   { inKnownWeather(t, ofFleets()) }
func TestRolloutsInKnownWeather(t *testing.T) { inKnownWeather(t, ofStaged()) }
func TestClustersInKnownWeather(t *testing.T) { inKnownWeather(t, ofClusters()) }

// world is what plans happen to.
type world struct {
	files string // of plans
	verbs []string
	gives string // the verb that gives a config
	begin func() (simulated, error)
}

// simulated is what a plan happens to.
type simulated interface {
	happens(s step) (faults []string) // one step
	ends(well bool) (faults []string) // all processes; if all went well, it is judged first
}

func ofNodes() world {
	return world{"testdata/*.node", slices.Sorted(maps.Keys(verbs)), "config", func() (simulated, error) { return newTown(), nil }}
}

func ofFleets() world {
	return world{"testdata/*.fleet", slices.Sorted(maps.Keys(fleetVerbs)), "layers",
		func() (simulated, error) { return newCrowd(crowdNodes) }}
}

func ofClusters() world {
	return world{"testdata/*.cluster", slices.Sorted(maps.Keys(clusterVerbs)), "cluster",
		func() (simulated, error) { return newClustered() }}
}

func ofStaged() world {
	return world{"testdata/*.staged", slices.Sorted(maps.Keys(stagedVerbs)), "change",
		func() (simulated, error) { return newStaged() }}
}

func inAnyWeather(t *testing.T, w world, plans, steps int) {
	var total atomic.Int64
	began := time.Now()
	t.Run("plans", func(t *testing.T) {
		for i := range uint64(plans) {
			t.Run(fmt.Sprint(*seed+i), func(t *testing.T) {
				t.Parallel()
				total.Add(int64(judged(t, w, draw(*seed+i, steps, w.verbs, w.gives))))
			})
		}
	})
	t.Logf("%d plans, %.1f simulated hours, %v", plans, time.Duration(total.Load()).Hours(),
		time.Since(began).Round(time.Second))
}

func inKnownWeather(t *testing.T, w world) {
	files, err := filepath.Glob(w.files)
	if err != nil || len(files) == 0 {
		t.Fatalf("no plans: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, err := parsePlan(string(text), w.verbs)
			if err != nil {
				t.Fatal(err)
			}
			judged(t, w, p)
		})
	}
}

// judged runs a plan, shortens it if it fails, and returns the simulated time.
func judged(t *testing.T, w world, p plan) time.Duration {
	faults, took := run(t, w, p)
	if len(faults) == 0 {
		return took
	}
	short := shorten(p, *tries, func(p plan) bool {
		again, _ := run(t, w, p)
		return len(again) > 0
	})
	last, _ := run(t, w, short)
	t.Errorf("%d faults:\n%s\nThe plan, shortened:\n%s\nits faults:\n%s", len(faults), strings.Join(faults, "\n"), short,
		strings.Join(last, "\n"))
	return took
}

// run runs a plan, and returns the faults of the node and the simulated time.
func run(t *testing.T, of world, p plan) (faults []string, took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w, err := of.begin()
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for _, s := range p {
			time.Sleep(time.Until(start.Add(s.at)))
			if faults = w.happens(s); len(faults) > 0 {
				break
			}
		}
		faults = w.ends(len(faults) == 0)
		took = time.Since(began)
	})
	return faults, took
}

// A plan is a text.
func TestAPlanIsItsText(t *testing.T) {
	p := draw(7, 50, ofNodes().verbs, ofNodes().gives)
	again, err := parsePlan(p.String(), ofNodes().verbs)
	if err != nil || again.String() != p.String() || len(p) != 50 {
		t.Errorf("%v:\n%s\nis read as\n%s", err, p, again)
	}
	for _, wrong := range []string{"1s kill", "1s sing 1", "one kill 1", "1s kill -1"} {
		if _, err := parsePlan(wrong, ofNodes().verbs); err == nil {
			t.Errorf("%q is read", wrong)
		}
	}
}

// A plan is shortened to the steps without which it does not fail.
func TestAPlanIsShortened(t *testing.T) {
	p := draw(7, 50, ofNodes().verbs, ofNodes().gives)
	runs := 0
	short := shorten(p, 100, func(q plan) bool {
		runs++
		return strings.Contains(q.String(), p[11].String()) && strings.Contains(q.String(), p[40].String())
	})
	if want := (plan{p[11], p[40]}).String(); short.String() != want || runs > 100 {
		t.Errorf("after %d runs\n%swant\n%s", runs, short, want)
	}
}
