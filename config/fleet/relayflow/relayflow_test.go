package relayflow

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestASenderSendsWhatItWasCredited(t *testing.T) {
	t.Parallel()
	var s Sender
	if n := s.Take(10); n != 0 {
		t.Errorf("%d bytes without credit", n)
	}
	s.Credited(2)
	if none, a, b, c := s.Take(0), s.Take(60), s.Take(math.MaxInt), s.Take(1); none != 0 || a != 60 || b != PieceSize ||
		c != 0 {
		t.Errorf("%d %d %d %d", none, a, b, c)
	}
	s.Credited(math.MaxUint64)
	s.Credited(math.MaxUint64)
	sent := 0
	for s.Take(1) > 0 {
		sent++
	}
	if sent != Window {
		t.Errorf("%d messages of a hostile credit", sent)
	}
}

func TestAReceiverRefusesWhatItHasNotCredited(t *testing.T) {
	t.Parallel()
	var r Receiver
	if r.Received(1) {
		t.Error("before the first credit")
	}
	if r.Begin() != Window || r.Received(PieceSize+1) {
		t.Error("a piece is too large")
	}
	for range Window {
		if !r.Received(PieceSize) {
			t.Error("a window is not a window")
		}
	}
	for range Window/2 - 1 {
		if r.Taken() != 0 || r.Received(1) {
			t.Error("credit too early")
		}
	}
	if got := r.Taken(); got != Window/2 {
		t.Errorf("credit %d", got)
	}
	for range Window / 2 {
		if !r.Received(1) {
			t.Error("credit is refused")
		}
	}
	if r.Received(1) {
		t.Error("more than credited")
	}
}

// However the messages and the credits interleave, everything arrives, and no more than a window is ever under way.
func TestEverythingArrivesWithinTheWindow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var r Receiver
		var s Sender
		left, waiting, credits, got := 50+int(seed), 0, r.Begin(), 0
		want := left
		for steps := 0; got < want; steps++ {
			if steps > 1_000_000 {
				t.Fatalf("seed %d: stuck at %d of %d", seed, got, want)
			}
			switch random.IntN(3) {
			case 0:
				s.Credited(credits)
				credits = 0
			case 1:
				if left > 0 && s.Take(1) > 0 {
					if !r.Received(1) {
						t.Fatalf("seed %d: refused", seed)
					}
					left, waiting = left-1, waiting+1
				}
			case 2:
				if waiting > 0 {
					waiting, got = waiting-1, got+1
					credits += r.Taken()
				}
			}
			if waiting > Window {
				t.Fatalf("seed %d: %d messages wait", seed, waiting)
			}
		}
	}
}
