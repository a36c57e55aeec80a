package main

import (
	"context"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan-controller/offline"
	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/cmd/edgespan-controller/simulate"
	"edgespan/cmd/term"
)

// run executes the command line and returns its exit code. It prints errors on Err, one line each.
func run(ctx context.Context, s term.Streams, args []string) int {
	a := serve.New(s, version)
	return a.Run(ctx, newRoot(a), args)
}

const about = `edgespan-controller is the source of truth for the configuration of a fleet of edge nodes: it
stores their layers with full history, serves the API that edgespan and other clients use, and
pushes to each node its effective config.

The first start creates a certificate authority, a store and an administrator's token in the
data folder, and prints on stderr where the token is and how a node joins. SIGTERM and SIGINT
disconnect the nodes and stop the controller; they keep running without it. SIGHUP reopens the
files of the audit log, after a rotation.

Each flag may be spelled with '_' for '-', as 'edgespan layers print-flags' prints those of
a controller_config.json. A flag takes precedence over the environment (EDGESPAN_CONTROLLER_DATA_DIR
for --data-dir), the environment over the flags of the controller's stored config, and these over
the default.

Data goes to stdout, messages to stderr. Exit codes: 0 ok, 1 error, 2 usage, 3 timeout,
4 rejected, 5 conflict, 7 permission, 8 controller not reachable, 10 not found.`

func newRoot(a *serve.App) *cobra.Command {
	root := a.NewRoot("edgespan-controller", "Run the controller of a fleet of edge nodes", about)
	root.Example = `  edgespan-controller --data-dir /var/lib/edgespan-controller --listen 127.0.0.1:8443 ` +
		`--node-listen 0.0.0.0:8444 --node-host fleet.example.org
  edgespan-controller --data-dir DIR --auth none`
	serve.Bind(a, root)
	root.AddCommand(offline.Commands(a)...)
	root.AddCommand(simulate.New(a), a.NewVersion("edgespan-controller", version))
	return root
}
