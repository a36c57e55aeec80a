package nodeapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"

	"edgespan/config/httpapi/rest"
)

// maxStacks bounds the text of the stacks: the daemon holds it in memory, and stops while it is made.
const maxStacks = 4 << 20

// goroutines answers with the stacks of all goroutines, the memory and the build of the daemon. It makes one answer at
// a time.
func (a *api) goroutines(w http.ResponseWriter, _ *http.Request) {
	if !a.stacks.TryLock() {
		answerProblem(w, rest.Refuse(rest.TypeBusy, "another caller reads the stacks: try again"))
		return
	}
	defer a.stacks.Unlock()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	buf := make([]byte, min(maxStacks, 64<<10+runtime.NumGoroutine()*2<<10))
	buf = buf[:runtime.Stack(buf, true)]
	info, _ := debug.ReadBuildInfo() // nil without one
	// An error means that the caller has gone.
	_, _ = fmt.Fprintf(w, "version %s, %d goroutines, heap %d bytes in %d objects, %d bytes from the system, "+
		"%d collections\n\n%s\n\n%v\n",
		a.version, runtime.NumGoroutine(), m.HeapAlloc, m.HeapObjects, m.Sys, m.NumGC, buf, info)
}

// Goroutines writes the stacks of the daemon's goroutines, its memory and its build.
func (c *Client) Goroutines(ctx context.Context, w io.Writer) error {
	return c.Copy(ctx, rest.Request{Method: http.MethodGet, Path: "/v1/debug/goroutines"}, w)
}
