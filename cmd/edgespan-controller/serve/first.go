package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
)

// The name in the join command of a first start, and the lifetime of its token.
const (
	firstNode = "node-1"
	firstLife = 24 * time.Hour
)

// printBootstrap waits until the controller is ready. At the first start it creates an admin token and prints on
// stderr where the token is and how to join a node.
func (s *service) printBootstrap(ctx context.Context) error {
	if err := awaitReady(ctx, s.fleet); err != nil {
		return err
	}
	if _, err := s.foundation.dir.Token(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	how := "to join a node, run the command that this prints: edgespan nodes invite NAME"
	nodes, err := s.fleet.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("look for nodes: %w", err)
	}
	// With nodes, this is a new replica, or the token file was lost: do not replace an invitation of another replica.
	if len(nodes) == 0 {
		join, err := s.fleet.Invite(ctx, itself, firstNode, firstLife, false)
		if err != nil {
			return fmt.Errorf("make the first join token: %w", err)
		}
		how = fmt.Sprintf("to join the first node as %s, run within a day: %s", firstNode, join.Command)
	}
	if err := s.adminToken(ctx); err != nil {
		return fmt.Errorf("make the admin token: %w", err)
	}
	s.app.Printf("admin token: %s", s.foundation.dir.TokenFile())
	s.app.Printf("CA sha256:   %s", s.issuer.Pin())
	s.app.Printf("%s", how)
	return nil
}

// adminToken creates this replica's admin token and writes it to the data folder. It then removes older ones, whose
// file was lost.
func (s *service) adminToken(ctx context.Context) error {
	have, err := s.fleet.Operators(ctx)
	if err != nil {
		return err
	}
	base := "admin@" + s.foundation.replica
	var old []string
	for _, t := range have {
		if t.Name == base || strings.HasPrefix(t.Name, base+".") {
			old = append(old, t.Name)
		}
	}
	name := base
	for n := 2; slices.Contains(old, name); n++ {
		name = fmt.Sprintf("%s.%d", base, n)
	}
	text, err := s.fleet.AddOperator(ctx, itself, fleetapi.OperatorToken{Name: name, Role: fleetapi.Admin})
	if err != nil {
		return err
	}
	if err := s.foundation.dir.KeepToken(text); err != nil {
		return err
	}
	for _, name := range old { // after the new one exists, since a fleet always has an admin
		if err := s.fleet.RemoveOperator(ctx, itself, name); err != nil && !errors.As(err, new(*ops.NotFoundError)) {
			return err
		}
	}
	return nil
}

// awaitReady waits until requests can be served.
func awaitReady(ctx context.Context, fleet running) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		err := fleet.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case end := <-fleet.Done():
			return errors.Join(errors.New("start the controller"), end)
		case <-ctx.Done():
			return fmt.Errorf("start the controller: it is not ready: %w", err)
		case <-look.C:
		}
	}
}
