package reach

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

// The defaults of a node's folders; flags and the environment override them.
const (
	defaultRunDir   = "/run/edgespan"
	DefaultStateDir = "/var/lib/edgespan"
	DefaultConfig   = "/etc/edgespan/node.yaml"
	SocketName      = "edgespan.sock"
	shellSocketName = "shell.sock"
)

// App is one run of the command line: its streams, and its way to the node and the controller.
type App struct {
	term.Streams
	socket, runDir string
	Fleet          Flags
}

// Bind defines the flags that every command has.
func (a *App) Bind(root *cobra.Command) {
	root.PersistentFlags().StringVar(&a.socket, "socket", "", "control socket (default <run-dir>/"+SocketName+")")
	root.PersistentFlags().StringVar(&a.runDir, "run-dir", "", "runtime folder (default "+defaultRunDir+")")
	a.bindFleet(root)
}

// RunFolder returns the runtime folder of the node.
func (a *App) RunFolder() string { return a.Setting(a.runDir, "EDGESPAN_RUN_DIR", defaultRunDir) }

// SocketPath returns the control socket. A flag overrides the environment, so --run-dir overrides EDGESPAN_SOCKET too.
func (a *App) SocketPath() string {
	switch {
	case a.socket != "":
		return a.socket
	case a.runDir != "":
		return filepath.Join(a.runDir, SocketName)
	}
	return a.Setting("", "EDGESPAN_SOCKET", filepath.Join(a.RunFolder(), SocketName))
}

// ShellSocket returns the socket of debug shells, which is beside the control socket.
func ShellSocket(control string) string { return filepath.Join(filepath.Dir(control), shellSocketName) }

// Client returns a client of the node's daemon.
func (a *App) Client() *nodeapi.Client { return nodeapi.NewClient(a.SocketPath()) }

// Connect returns a client of the node's daemon for one request, and a context that ends after RequestTimeout. Call
// done after the request.
func (a *App) Connect(ctx context.Context) (_ context.Context, c *nodeapi.Client, done func()) {
	c = a.Client()
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	return ctx, c, func() { c.Close(); cancel() }
}

// RequestTimeout bounds one request to the daemon. apply answers when the config is stored, not when the host is
// changed.
const RequestTimeout = 30 * time.Second

// CompletionTimeout bounds a completion.
const CompletionTimeout = time.Second
