package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/history"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/metadata"
)

// unmasks says why a caller may not change what is accepted of a board: its metadata calls something secret that
// would be shown to everybody then. An admin may.
func (c *Controller) unmasks(ctx context.Context, by fleetapi.Caller, board string, next json.RawMessage) error {
	if by.Role.May(fleetapi.Admin) {
		return nil
	}
	e, err := c.d.Reader(ctx).Get(history.AcceptedKey(board))
	if err != nil {
		return fmt.Errorf("accepted hardware of board %s: %w", config.Quote(board), err)
	}
	if !e[0].Exists() {
		return nil
	}
	var was proposal
	if json.Unmarshal(e[0].Value, &was) != nil {
		return nil // nothing of it counts
	}
	still := secretsOf(next)
	lost := slices.DeleteFunc(secretsOf(was.Data), func(path string) bool {
		if slices.Contains(still, path) {
			return true
		}
		if c.d.Metadata == nil {
			return false
		}
		at, err := config.ParsePath(path)
		entry, _ := c.d.Metadata.Entry(at)
		return err == nil && entry.Secret
	})
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("board %s: %w %q: it calls %s secret, which would be shown: must be %s",
		config.Quote(board), fleetapi.ErrRole, by.Role, config.Cut(strings.Join(lost, ", "), 200), fleetapi.Admin)
}

// readable says why a caller may not accept what a board says of itself: its metadata has faults, so it describes
// nothing, and what it may call secret would be shown to everybody. An admin may.
func readable(by fleetapi.Caller, p proposal) error {
	if by.Role.May(fleetapi.Admin) {
		return nil
	}
	b, err := parseBase(p.Data)
	if err != nil {
		return fmt.Errorf("board %s: %w: %w", config.Quote(p.Board), fleetapi.ErrRefused, err)
	}
	if b.metadata == nil {
		return nil
	}
	if _, faults := metadata.Parse(b.metadata, metadata.Options{UnknownActions: true}); len(faults) > 0 {
		return fmt.Errorf("board %s: %w %q: its metadata has faults, so its secrets would be shown: must be %s: %s",
			config.Quote(p.Board), fleetapi.ErrRole, by.Role, fleetapi.Admin, config.Cut(faults.Error(), 200))
	}
	return nil
}

// secretsOf are the places that the metadata of a board calls secret.
func secretsOf(data json.RawMessage) (out []string) {
	b, err := parseBase(data)
	if err != nil || b.metadata == nil {
		return nil
	}
	m, faults := metadata.Parse(b.metadata, metadata.Options{UnknownActions: true})
	if len(faults) > 0 {
		return nil
	}
	for e := range m.All() {
		if e.Secret {
			out = append(out, config.FormatPath(e.Path))
		}
	}
	return out
}
