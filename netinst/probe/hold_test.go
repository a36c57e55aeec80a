package probe

import (
	"math/rand/v2"
	"testing"
	"time"
)

// An uplink whose loss is near the limit crosses it again and again; without a hold-down that moved the network 114
// times in the hour with 22 %.
func TestAPortAtALimitMovesTheNetworkSeldom(t *testing.T) {
	for _, loss := range []int{10, 15, 20, 22, 25, 30} {
		rng := rand.New(rand.NewPCG(1, uint64(loss)))
		w := newTown(t, Config{MaxLoss: 20})
		w.seconds(40)
		w.moves = 0
		for range 3600 {
			w.pass(time.Second)
			fault := ""
			if rng.IntN(100) < loss {
				fault = "no answer"
			}
			w.answer("wan", "", false)
			w.answer("wan", fault, true)
			w.answer("lte", "", true)
		}
		if w.moves > 15 {
			t.Errorf("%d moves in an hour in which wan loses %d %%", w.moves, loss)
		}
		w.seconds(660)
		w.uses("wan", "it loses none")
	}
}

// A port that is held after a limit is better than one beyond it only in its loss: as nothing else works, it is used.
func TestAPortThatIsHeldByALimitIsUsedIfNoOtherWorks(t *testing.T) {
	w := newTown(t, Config{MaxLoss: 20})
	w.seconds(40)
	w.losesHalf("wan")
	w.uses("lte", "wan loses half")
	for w.choice.Ports[1].Class != Held {
		w.seconds(1)
	}
	w.ports["lte"].Reach = Down
	w.see()
	w.uses("wan", "lte is down")
	if w.choice.Ports[0].Resting {
		t.Error("static routes leave a port that has not failed")
	}
}

// A port that fails each time it is used is used ever more rarely, and not often again once its hold-down is long.
func TestAPortThatAlwaysFailsIsUsedRarely(t *testing.T) {
	w := newTown(t, Config{})
	w.seconds(20)
	w.moves = 0
	for range 24 * 60 * 60 {
		w.seconds(1)
		if w.port == "wan" {
			w.ports["wan"].Reach = Down
			w.see()
			w.ports["wan"].Reach = Out
			w.see()
		}
	}
	if maxMoves := 2 * (7 + 24*6); w.moves > maxMoves {
		t.Errorf("%d moves in a day, want at most %d", w.moves, maxMoves)
	}
}
