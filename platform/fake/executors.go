package fake

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"edgespan/netinst/netstate"
)

// Executors are the executors of a host in memory. They keep running when the node that started them ends.
type Executors struct {
	mu     sync.Mutex
	runs   map[string]netstate.Executor
	starts map[string]int
	stops  map[string]int
	broken map[string]error // error of Make
	ended  func(id string)
	panics map[string]bool
	hung   map[string]bool // Make blocks
	deaf   map[netip.Addr]bool
}

// NewExecutors returns a host on which no executor runs and every address answers.
func NewExecutors() *Executors {
	return &Executors{
		runs: map[string]netstate.Executor{}, starts: map[string]int{}, stops: map[string]int{}, broken: map[string]error{},
		ended: func(string) {}, panics: map[string]bool{}, hung: map[string]bool{}, deaf: map[netip.Addr]bool{},
	}
}

// Break makes each start of an executor fail with err; nil lets it succeed.
func (x *Executors) Break(id string, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.broken[id] = err
}

// Panic makes the next check of an executor panic.
func (x *Executors) Panic(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.panics[id] = true
}

// Hang sets whether each start of an executor blocks until its context ends.
func (x *Executors) Hang(id string, hung bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hung[id] = hung
}

// Mend ends what Break and Hang have set, of all executors.
func (x *Executors) Mend() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.broken)
	clear(x.hung)
}

// SetDeaf sets whether an address ignores echo requests.
func (x *Executors) SetDeaf(a netip.Addr, deaf bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deaf[a] = deaf
}

// Kill ends an executor, as if its process had ended by itself.
func (x *Executors) Kill(id string) {
	x.mu.Lock()
	delete(x.runs, id)
	f := x.ended
	x.mu.Unlock()
	f(id)
}

// Starts returns how often an executor was started.
func (x *Executors) Starts(id string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.starts[id]
}

// Stops returns how often an executor was stopped.
func (x *Executors) Stops(id string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stops[id]
}

// List returns the IDs of the running executors.
func (x *Executors) List(context.Context) ([]string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(maps.Keys(x.runs)), nil
}

// Has reports whether an executor is running.
func (x *Executors) Has(_ context.Context, id string) (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := x.runs[id]
	return ok, nil
}

// Check returns the condition of an executor.
func (x *Executors) Check(_ context.Context, e netstate.Executor) (netstate.Condition, string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.panics[e.ID] {
		delete(x.panics, e.ID)
		panic("the check of " + e.ID)
	}
	if run, ok := x.runs[e.ID]; ok && reflect.DeepEqual(run, e) {
		return netstate.AsDesired, "", nil
	}
	return netstate.Missing, "exited with unknown status", nil
}

// Make starts an executor and replaces one with the same ID.
func (x *Executors) Make(ctx context.Context, e netstate.Executor) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.hung[e.ID] {
		x.mu.Unlock()
		<-ctx.Done()
		x.mu.Lock()
		return ctx.Err()
	}
	if err := x.broken[e.ID]; err != nil {
		return err
	}
	x.runs[e.ID] = e
	x.starts[e.ID]++
	return nil
}

// Remove stops an executor.
func (x *Executors) Remove(_ context.Context, id string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.runs, id)
	x.stops[id]++
	return nil
}

// Ended sets a function to call when an executor is killed.
func (x *Executors) Ended(f func(id string)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = f
}

// Echo succeeds unless the address is deaf.
func (x *Executors) Echo(ctx context.Context, _, remote netip.Addr) (time.Duration, error) {
	x.mu.Lock()
	deaf := x.deaf[remote]
	x.mu.Unlock()
	if !deaf {
		return time.Millisecond, nil
	}
	<-ctx.Done()
	return 0, errors.Join(errors.New("no answer"), ctx.Err())
}
