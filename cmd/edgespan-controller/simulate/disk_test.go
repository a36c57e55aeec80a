package simulate

import (
	"slices"
	"testing"
	"testing/synctest"
)

// A config that a node stores before it answers goes before what others store after they have answered.
func TestPendingConfigsAreStoredFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := diskTurns{free: 2}
		d.acquire(false)
		d.acquire(true)
		var order []string
		wait := func(name string, first bool) {
			go func() {
				d.acquire(first)
				order = append(order, name)
			}()
			synctest.Wait()
		}
		wait("rest 1", false)
		wait("first 1", true)
		wait("rest 2", false)
		wait("first 2", true)
		if len(order) > 0 {
			t.Errorf("%v did not wait", order)
		}
		for range 4 {
			d.release()
			synctest.Wait()
		}
		if want := []string{"first 1", "first 2", "rest 1", "rest 2"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
		d.release()
		d.release()
		if d.free != 2 {
			t.Errorf("%d free", d.free)
		}
	})
}
