package offline

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/cmd/term"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
)

// adminTimeout bounds a command's requests to a controller.
const adminTimeout = 5 * time.Minute

// adminClient is the administration of a fleet: through the API of a running controller, or on its store while none
// runs.
type adminClient interface {
	importFiles(ctx context.Context, f history.Files, message string, dryRun bool) (fleetapi.Written, error)
	exportFiles(ctx context.Context) (history.Files, error)
	token(ctx context.Context, t fleetapi.OperatorToken) (string, error)
	invite(ctx context.Context, node string, life time.Duration, replace bool) (fleetapi.Invitation, error)
	close() error
}

// reach are the flags that select the fleet.
type reach struct {
	*serve.Options
	term.Target
}

// bindReach adds the flags that select the fleet.
func bindReach(cmd *cobra.Command) *reach {
	r := &reach{Options: serve.NewOptions()}
	f := cmd.Flags()
	f.StringVar(&r.Controller, "controller", "",
		"URL of a running controller (default: open the store itself, with no controller running on it)")
	f.StringVar(&r.TokenFile, "token-file", "", "file with an operator's token for that controller")
	f.StringVar(&r.CAFile, "ca-file", "", "PEM file of the CA that signed that controller's certificate")
	f.StringVar(&r.CASHA256, "ca-sha256", "", "fingerprint of that CA, as printed at the controller's first start")
	r.BindStore(cmd)
	return r
}

// open opens the controller or the store that the flags name.
func (r *reach) open(ctx context.Context, a *serve.App, cmd *cobra.Command) (adminClient, error) {
	if err := r.resolve(a, cmd); err != nil {
		return nil, err
	}
	if r.Controller != "" {
		client, err := r.Client()
		if err != nil {
			return nil, err
		}
		return onlineAdmin{client}, nil
	}
	f, err := serve.OpenLocal(ctx, a, r.Options)
	if err != nil {
		return nil, err
	}
	return offlineAdmin{f}, nil
}

// resolve finds out whether the flags and the environment name a controller or a store.
func (r *reach) resolve(a *serve.App, cmd *cobra.Command) error {
	set := func(value *string, env string) {
		if *value == "" {
			*value = a.Env(env)
		}
	}
	// A store on the command line overrides a controller in the environment.
	if f := cmd.Flags(); !f.Changed("data-dir") && !f.Changed("etcd") {
		set(&r.Controller, "EDGESPAN_CONTROLLER")
	} else if r.Controller != "" {
		return term.Exclusive("--controller", "--data-dir or --etcd")
	}
	set(&r.TokenFile, "EDGESPAN_TOKEN_FILE")
	if r.CAFile == "" && r.CASHA256 == "" { // a flag overrides both variables
		set(&r.CASHA256, "EDGESPAN_CA_SHA256")
		set(&r.CAFile, "EDGESPAN_CA_FILE")
	}
	return r.Resolve(cmd, a.Env)
}

type onlineAdmin struct{ client *fleetapi.Client }

func (r onlineAdmin) importFiles(ctx context.Context, f history.Files, message string, dryRun bool) (fleetapi.Written,
	error) {
	return r.client.Write(ctx, ops.Import{Files: f}, fleetapi.WriteOptions{Message: message, DryRun: dryRun})
}

func (r onlineAdmin) exportFiles(ctx context.Context) (history.Files, error) {
	out, err := r.client.Export(ctx, true)
	return out.Files.History(), err
}

func (r onlineAdmin) token(ctx context.Context, t fleetapi.OperatorToken) (string, error) {
	made, err := r.client.AddOperator(ctx, t)
	return made.Token, err
}

func (r onlineAdmin) invite(ctx context.Context, node string, life time.Duration, replace bool) (fleetapi.Invitation,
	error) {
	return r.client.Invite(ctx, node, life, replace)
}

func (r onlineAdmin) close() error {
	r.client.Close()
	return nil
}

// offlineAdmin is the administration on the store.
type offlineAdmin struct{ fleet *serve.LocalController }

// operator is the author of offline writes: a user who can read the folder is an administrator.
var operator = fleetapi.Caller{Name: "local", Role: fleetapi.Admin}

func (l offlineAdmin) importFiles(ctx context.Context, f history.Files, message string, dryRun bool) (fleetapi.Written,
	error) {
	return l.fleet.Write(ctx,
		fleetapi.WriteRequest{Caller: operator, Write: ops.Import{Files: f}, Message: message, DryRun: dryRun})
}

func (l offlineAdmin) exportFiles(ctx context.Context) (history.Files, error) {
	f, _, err := l.fleet.Export(ctx, true)
	return f, err
}

func (l offlineAdmin) token(ctx context.Context, t fleetapi.OperatorToken) (string, error) {
	return l.fleet.AddOperator(ctx, operator, t)
}

func (l offlineAdmin) invite(ctx context.Context, node string, life time.Duration, replace bool) (fleetapi.Invitation,
	error) {
	return l.fleet.Invite(ctx, operator, node, life, replace)
}

func (l offlineAdmin) close() error { return l.fleet.Close() }
