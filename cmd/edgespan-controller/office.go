package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"edgespan/cmd/term"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/pki"
)

// officeWait bounds what a command asks of a controller.
const officeWait = 5 * time.Minute

// office is what the commands beside the controller ask of a fleet: of a running controller
// over REST, or of its store while none runs.
type office interface {
	take(ctx context.Context, f history.Files, message string, dryRun bool) (fleetapi.Written, error)
	give(ctx context.Context) (history.Files, error)
	token(ctx context.Context, t fleetapi.OperatorToken) (string, error)
	invite(ctx context.Context, node string, life time.Duration, replace bool) (fleetapi.Invitation, error)
	close() error
}

// reach are the flags that say which fleet is meant.
type reach struct {
	*options
	url, tokenFile, caFile, caPin string
}

// bindReach gives a command the flags that say which fleet is meant.
func bindReach(cmd *cobra.Command) *reach {
	r := &reach{options: newOptions()}
	f := cmd.Flags()
	f.StringVar(&r.url, "controller", "",
		"URL of a running controller; without it the store itself is opened, which no controller may hold")
	f.StringVar(&r.tokenFile, "token-file", "", "file of an operator's token for it")
	f.StringVar(&r.caFile, "ca-file", "", "PEM file of the CA that its certificate is from")
	f.StringVar(&r.caPin, "ca-sha256", "", "fingerprint of that CA, as the first start says it")
	r.bind(cmd, storing)
	return r
}

// open opens what the flags name.
func (r *reach) open(ctx context.Context, a *app, cmd *cobra.Command) (office, error) {
	if err := r.settle(a, cmd); err != nil {
		return nil, err
	}
	if r.url != "" {
		client, err := r.client()
		if err != nil {
			return nil, err
		}
		return remoteOffice{client}, nil
	}
	return a.local(ctx, r.options)
}

// settle finds out what the flags and the environment name: a controller, or a store.
func (r *reach) settle(a *app, cmd *cobra.Command) error {
	set := func(value *string, env string) {
		if *value == "" {
			*value = a.Env(env)
		}
	}
	// A data folder on the command line is the store that is meant, whatever the environment names.
	if f := cmd.Flags(); !f.Changed("data-dir") && !f.Changed("etcd") {
		set(&r.url, "EDGESPAN_CONTROLLER")
	} else if r.url != "" {
		return term.Usagef("--controller: stands beside --data-dir or --etcd: one of them is allowed")
	}
	set(&r.tokenFile, "EDGESPAN_TOKEN_FILE")
	if r.caFile == "" && r.caPin == "" { // one of them on the command line is the one that is meant
		set(&r.caPin, "EDGESPAN_CA_SHA256")
		set(&r.caFile, "EDGESPAN_CA_FILE")
	}
	return r.resolve(cmd, a.Env)
}

// client asks a running controller.
func (r *reach) client() (*fleetapi.Client, error) {
	o := fleetapi.Options{URL: r.url}
	if r.tokenFile != "" {
		text, err := os.ReadFile(r.tokenFile)
		if err != nil {
			return nil, term.WithClass(term.ExitNotFound, fmt.Errorf("read token: %w", err))
		}
		o.Token = strings.TrimSpace(string(text))
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	o.Transport = t
	switch {
	case r.caPin != "" && r.caFile != "":
		return nil, term.Usagef("--ca-sha256 and --ca-file: one of them is allowed")
	case r.caPin != "":
		pin, err := pki.ParsePin(r.caPin)
		if err != nil {
			return nil, term.Usagef("--ca-sha256: %w", err)
		}
		u, err := url.Parse(r.url)
		if err != nil {
			return nil, term.Usagef("--controller: %w", err)
		}
		t.TLSClientConfig = pki.PinnedTLS(pin, u.Hostname(), time.Now)
	case r.caFile != "":
		c, err := pki.ClientFiles{CA: r.caFile}.TLS()
		if err != nil {
			return nil, term.WithClass(term.ExitNotFound, err)
		}
		t.TLSClientConfig = c
	}
	client, err := fleetapi.NewClient(o)
	if err != nil {
		return nil, term.WithClass(term.ExitUsage, err)
	}
	return client, nil
}

type remoteOffice struct{ client *fleetapi.Client }

func (r remoteOffice) take(ctx context.Context, f history.Files, message string, dryRun bool) (fleetapi.Written,
	error) {
	return r.client.Write(ctx, ops.Import{Files: f}, fleetapi.WriteOptions{Message: message, DryRun: dryRun})
}

func (r remoteOffice) give(ctx context.Context) (history.Files, error) {
	out, err := r.client.Export(ctx, true)
	return out.Files.History(), err
}

func (r remoteOffice) token(ctx context.Context, t fleetapi.OperatorToken) (string, error) {
	made, err := r.client.AddOperator(ctx, t)
	return made.Token, err
}

func (r remoteOffice) invite(ctx context.Context, node string, life time.Duration, replace bool) (fleetapi.Invitation,
	error) {
	return r.client.Invite(ctx, node, life, replace)
}

func (r remoteOffice) close() error {
	r.client.Close()
	return nil
}

// local starts a controller on the store that speaks to nobody: what judges a write is the
// same as ever.
func (a *app) local(ctx context.Context, o *options) (office, error) {
	log := newLogger(a.Err, zapcore.WarnLevel)
	g, err := openGround(ctx, o, log)
	if err != nil {
		return nil, err
	}
	l := &localOffice{ground: g}
	i, mask, err := g.fleetCA(ctx, o, serverNames(o, nil, nil))
	if err == nil {
		l.fleet, err = a.tree(g, o, i, mask, joinAddress(o, nil), nil)
	}
	if err == nil {
		err = awaitReady(ctx, l.fleet)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

type localOffice struct {
	ground *ground
	fleet  running
}

// operator is who writes offline: whoever may read the folder is an administrator.
var operator = fleetapi.Caller{Name: "local", Role: fleetapi.Admin}

func (l *localOffice) take(ctx context.Context, f history.Files, message string, dryRun bool) (fleetapi.Written,
	error) {
	return l.fleet.Write(ctx,
		fleetapi.WriteRequest{Caller: operator, Write: ops.Import{Files: f}, Message: message, DryRun: dryRun})
}

func (l *localOffice) give(ctx context.Context) (history.Files, error) {
	f, _, err := l.fleet.Export(ctx, true)
	return f, err
}

func (l *localOffice) token(ctx context.Context, t fleetapi.OperatorToken) (string, error) {
	return l.fleet.AddOperator(ctx, operator, t)
}

func (l *localOffice) invite(ctx context.Context, node string, life time.Duration, replace bool) (fleetapi.Invitation,
	error) {
	return l.fleet.Invite(ctx, operator, node, life, replace)
}

func (l *localOffice) close() error {
	var err error
	if l.fleet != nil {
		ctx, cancel := context.WithTimeout(context.Background(), drainWait)
		defer cancel()
		err = l.fleet.Stop(ctx)
	}
	return errors.Join(err, l.ground.close())
}
