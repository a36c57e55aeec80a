package scenario

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// answersOf are the times at which an app got answers by HTTP.
type answersOf struct {
	mu     sync.Mutex
	at     []time.Time
	errors map[string]int
}

// askForEver makes app 1 fetch a page in a loop, each with a connection of its own and without any time limit, until
// the test ends.
func (w *world) askForEver() *answersOf {
	w.Helper()
	ctx, stop := context.WithCancel(w.ctx)
	a := &answersOf{errors: map[string]int{}}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (c net.Conn, err error) {
			err = w.inside("web", func() error {
				c, err = (&net.Dialer{}).DialContext(ctx, network, addr)
				return err
			})
			return c, err
		},
	}}
	var asking sync.WaitGroup
	asking.Go(func() {
		pace := time.NewTicker(10 * time.Millisecond)
		defer pace.Stop()
		for ctx.Err() == nil {
			err := fetch(ctx, client)
			a.mu.Lock()
			if err == nil {
				a.at = append(a.at, time.Now())
			} else {
				a.errors[errors.Unwrap(err).Error()]++
			}
			a.mu.Unlock()
			<-pace.C
		}
	})
	w.Cleanup(func() { stop(); asking.Wait() })
	return a
}

func fetch(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+lab.WebAddr+"/", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// first returns the time of the first answer after t; zero if there is none yet.
func (a *answersOf) first(t time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.at {
		if at.After(t) {
			return at
		}
	}
	return time.Time{}
}

// BenchmarkUplinkHTTPAnswer measures from the first packet by another uplink, after the far side of the one in use has
// died, until an app that fetches pages in a loop is answered, whatever happens to the request that was under way.
func BenchmarkUplinkHTTPAnswer(b *testing.B) {
	shareRuns(b, func() func() time.Duration {
		w := newUplinkWorld(b, lab.Options{Uplinks: lab.MaxUplinks}, 0)
		e, a := w.watchExits(lab.MaxUplinks, exitEvery), w.askForEver()
		return func() time.Duration {
			old := e.now()
			defer w.repairUplink(old, lab.FarSideDead)
			return w.answeredAfterSwitch(e, a, old)
		}
	})
}

// answeredAfterSwitch lets the far side of an uplink die and returns how long after the switch a client is answered.
func (w *world) answeredAfterSwitch(e *exits, a *answersOf, old int) time.Duration {
	w.Helper()
	began := time.Now()
	w.eventually("an answer", func() bool { return !a.first(began).IsZero() })
	at := w.breakUplink(old, lab.FarSideDead)
	switched := at.Add(e.leaves(old, at, 10*time.Second))
	w.eventually("an answer after the switch", func() bool { return !a.first(switched).IsZero() })
	took := a.first(switched).Sub(switched)
	w.Logf("switched after %v, first answer %v later; errors: %v", switched.Sub(at), took, a.errors)
	return took
}
