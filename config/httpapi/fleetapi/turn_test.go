package fleetapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/httpapi/rest"
)

// computing is a backend that records how many of a caller's reads are computed at a time.
type computing struct {
	*fake
	now, limit atomic.Int64
}

// take is a read that computes, and then acquires the turn of its request as an actor does.
func (b *computing) take(ctx context.Context) error {
	if n := b.now.Add(1); n > b.limit.Load() {
		b.limit.Store(n)
	}
	defer b.now.Add(-1)
	time.Sleep(time.Second)
	done, err := rest.AcquireTurn(ctx)
	if err == nil {
		done()
	}
	return err
}

func (b *computing) Export(ctx context.Context, _ bool) (history.Files, uint64, error) {
	return history.Files{Network: config.Object{"key": strings.Repeat("x", 1<<10)}}, 1, b.take(ctx)
}

func (b *computing) Hardware(ctx context.Context) ([]Hardware, error) { return nil, b.take(ctx) }
func (b *computing) Nodes(ctx context.Context) ([]Node, error)        { return nil, b.take(ctx) }
func (b *computing) Peers(ctx context.Context) ([]Peer, error)        { return nil, b.take(ctx) }
func (b *computing) Clusters(ctx context.Context) ([]Cluster, error)  { return nil, b.take(ctx) }

// A caller's reads are computed one after the other, including HEAD; an admin's are computed at the same time.
func TestReadsAreComputedInTheTurnOfTheirCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &computing{fake: &fake{}}
		h := Handler(b, WithTokens(fakeHash))
		codes := make(chan int)
		paths := []string{"export", "boards", "nodes", "peers", "clusters"}
		get := func(method, path, token string) {
			go func() { codes <- ask(h, asked{method: method, target: Prefix + path, token: token}).Code }()
		}
		for _, path := range paths {
			get("GET", path, "t-viewer")
			get("HEAD", path, "t-viewer")
		}
		for range 2 * len(paths) {
			if code := <-codes; code != 200 {
				t.Error(code)
			}
		}
		if n := b.limit.Load(); n != 1 {
			t.Errorf("%d reads of one caller were computed at a time", n)
		}
		get("GET", "export", "t-viewer")
		get("GET", "export", "t-admin")
		for range 2 {
			if code := <-codes; code != 200 {
				t.Error(code)
			}
		}
		if n := b.limit.Load(); n != 2 {
			t.Errorf("an admin waited for a viewer: %d at a time", n)
		}
	})
}

// A turn ends once its answer has room: a caller that does not read the answer keeps none of its other requests
// waiting. It also ends if there is no room, and if the backend panics.
func TestATurnEndsBeforeItsAnswerIsTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := Handler(&computing{fake: &fake{}}, WithTokens(fakeHash), rest.WithAnswers(rest.NewAnswers(1<<20)))
		if w := ask(h, asked{method: "GET", target: Prefix + "nodes/panic", token: "t-viewer"}); w.Code != 500 {
			t.Fatal(w.Code)
		}
		slow := &stuck{ResponseRecorder: httptest.NewRecorder(), release: make(chan struct{})}
		ended := make(chan struct{})
		go func() {
			r := httptest.NewRequest(http.MethodGet, Prefix+"export", nil)
			r.Header.Set("Authorization", "Bearer t-viewer")
			h.ServeHTTP(slow, r)
			close(ended)
		}()
		synctest.Wait()
		begun := time.Now()
		for range 8 {
			if w := ask(h, asked{method: "GET", target: Prefix + "rollouts", token: "t-viewer"}); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("an answer that is not read held the turn: %s", took)
		}
		close(slow.release)
		<-ended
	})
}

// stuck is a reader that reads nothing until it is released.
type stuck struct {
	*httptest.ResponseRecorder
	release chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.release
	return s.ResponseRecorder.Write(p)
}
