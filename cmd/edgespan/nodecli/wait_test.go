package nodecli

import (
	"testing"
	"time"
)

func TestWaitAsksEverMoreSeldom(t *testing.T) {
	for waited, want := range map[time.Duration]time.Duration{
		0: 50 * time.Millisecond, 500 * time.Millisecond: 50 * time.Millisecond, 2 * time.Second: 200 * time.Millisecond,
		10 * time.Second: time.Second, time.Hour: time.Second,
	} {
		if got := pollAfter(waited); got != want {
			t.Errorf("after %v: %v, want %v", waited, got, want)
		}
	}
}
