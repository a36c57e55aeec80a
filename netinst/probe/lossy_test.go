package probe

import (
	"math/rand/v2"
	"testing"
	"time"
)

// lossyMoves returns how often a probe that loses some percent of its shots fails in a time, when the runner paces it.
func lossyMoves(r *rand.Rand, c Config, percent int, long time.Duration) (fails int) {
	id := ID{Interval: DefaultInterval, Timeout: DefaultTimeout}
	h, o := &health{state: Unknown}, Outcomes{ID: id}
	for at := time.Duration(0); at < long; {
		out := Outcome{Took: 50 * time.Millisecond, Lasted: 50 * time.Millisecond}
		if r.IntN(100) < percent {
			out = Outcome{Error: "no answer"}
		}
		before := h.state
		o = o.Add(out)
		h.learn(o, c)
		if h.state == Fails && before != Fails {
			fails++
		}
		at += o.Next(!out.OK())
	}
	return fails
}

// An uplink that loses a fifth in each direction, and so 36 % of all round trips, is not taken for a dead one: in 90 s
// not in one of 200 runs. Of those with a number of their own, one in 40 is.
func TestAnUplinkThatLosesMuchDoesNotFail(t *testing.T) {
	const runs = 1000
	for _, x := range []struct {
		config      Config
		least, most int
	}{{Config{}, 0, runs / 200}, {Config{FailAfter: DefaultFailAfter}, runs / 80, runs / 20}} {
		r, failed := rand.New(rand.NewPCG(1, 2)), 0
		for range runs {
			failed += min(1, lossyMoves(r, x.config, 36, 90*time.Second))
		}
		t.Logf("%+v: %d of %d runs", x.config, failed, runs)
		if failed < x.least || failed > x.most {
			t.Errorf("%+v: %d of %d runs of 90 s with 36 %% of loss failed", x.config, failed, runs)
		}
	}
}

// How many failures in a row it takes: what a probe lost while it worked counts, and not what it failed with.
func TestHowManyFailuresAProbeNeeds(t *testing.T) {
	answers := func(list ...int) (h *health) { // so many answers, failures, answers, …
		h, out, o := &health{state: Unknown}, Outcome{}, Outcomes{}
		for i, n := range list {
			out.Error = map[int]string{1: "no answer"}[i%2]
			for range n {
				o = o.Add(out)
				h.learn(o, Config{})
			}
		}
		return h
	}
	for _, x := range []struct {
		why  string
		h    *health
		want int
	}{
		{"no outcome", answers(), 8},
		{"nothing lost", answers(40), 8},
		{"failures that may be the end", answers(40, 7), 8},
		{"the end, and the way back", answers(40, 20, 5), 8},
		{"a twelfth lost", answers(22, 2, 8), 8},
		{"a tenth lost", answers(20, 3, 9), 9},
		{"three of seven lost", answers(1, 1, 1, 1, 1, 1, 1, 1), 13},
		{"what is long ago", answers(5, 7, 32), 8},
		{"nearly all lost", answers(1, 7, 1, 7, 1, 7, 1, 7, 1), 16},
	} {
		if got := x.h.failAfter(Config{}); got != x.want {
			t.Errorf("%s: %d failures, want %d (%v)", x.why, got, x.want, x.h.usual)
		}
		if got := x.h.failAfter(Config{FailAfter: 5}); got != 5 {
			t.Errorf("%s: %d failures, 5 are configured", x.why, got)
		}
	}
}
