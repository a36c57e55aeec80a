package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/httpapi"
)

const (
	defaultRunDir   = "/run/edgespan"
	defaultStateDir = "/var/lib/edgespan"
	defaultConfig   = "/etc/edgespan/node.yaml"
	socketName      = "edgespan.sock"
)

// app is one run of the command line.
type app struct {
	term.Streams
	socket, runDir string
	fleet          fleetFlags
}

// bind defines the flags that every command has.
func (a *app) bind(root *cobra.Command) {
	root.PersistentFlags().StringVar(&a.socket, "socket", "", "control socket (default <run-dir>/"+socketName+")")
	root.PersistentFlags().StringVar(&a.runDir, "run-dir", "", "runtime folder (default "+defaultRunDir+")")
	a.bindFleet(root)
}

func (a *app) runFolder() string { return a.Setting(a.runDir, "EDGESPAN_RUN_DIR", defaultRunDir) }

// socketPath follows the precedence over both ways to name it: a --run-dir on the
// command line beats EDGESPAN_SOCKET, since it is a flag.
func (a *app) socketPath() string {
	switch {
	case a.socket != "":
		return a.socket
	case a.runDir != "":
		return filepath.Join(a.runDir, socketName)
	}
	return a.Setting("", "EDGESPAN_SOCKET", filepath.Join(a.runFolder(), socketName))
}

func (a *app) client() *httpapi.Client { return httpapi.NewClient(a.socketPath()) }

// ask asks the daemon once, within requestTimeout.
func (a *app) ask(ctx context.Context, f func(context.Context, *httpapi.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c := a.client()
	defer c.Close()
	return f(ctx, c)
}

// requestTimeout bounds one question to the daemon: apply answers when the config is
// stored, not when the host is changed.
const requestTimeout = 30 * time.Second

// completionTimeout bounds how long the TAB key may hang.
const completionTimeout = time.Second
