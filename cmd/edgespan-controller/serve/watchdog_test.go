package serve

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"
)

// hung is a controller whose store hangs, and whose actors may.
type hung struct {
	running
	alive error
}

func (h hung) Ready(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (h hung) Alive(context.Context) error { return h.alive }

// The watchdog hears of us while the store hangs, and does not while the actors do.
func TestTheWatchdogAsksTheActorsAndNotTheStore(t *testing.T) {
	for _, one := range []struct {
		alive error
		beats int
	}{{nil, 1}, {context.DeadlineExceeded, 0}} {
		var said []string
		s := &service{fleet: hung{alive: one.alive}, notify: func(state string) { said = append(said, state) },
			log: zap.NewNop()}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		s.beat(ctx, time.Second)
		if ctx.Err() != nil || len(said) != one.beats {
			t.Errorf("%v: said %q", one.alive, said)
		}
		cancel()
	}
}
