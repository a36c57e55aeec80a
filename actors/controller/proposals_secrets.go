package controller

import (
	"encoding/json"
	"fmt"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/httpapi/fleetapi"
)

// checkReadable refuses a caller that is not an admin if a board's metadata has faults: faulty metadata masks nothing,
// so secrets would be shown.
func checkReadable(by fleetapi.Caller, p proposal) error {
	if by.Role.Includes(fleetapi.Admin) {
		return nil
	}
	b, err := fleet.ParseBase(p.Data)
	if err != nil {
		return fmt.Errorf("board %s: %w: %w", config.Quote(p.Board), fleetapi.ErrRefused, err)
	}
	if _, faults := b.Secrets(); len(faults) > 0 {
		return fmt.Errorf("board %s: %w %q: its metadata has faults, so its secrets would be shown: must be %s: %s",
			config.Quote(p.Board), fleetapi.ErrRole, by.Role, fleetapi.Admin, config.Truncate(faults.Error(), 200))
	}
	return nil
}

// secretsOf returns the paths that the metadata of a board marks as secret.
func secretsOf(data json.RawMessage) []string {
	b, err := fleet.ParseBase(data)
	if err != nil {
		return nil
	}
	secrets, _ := b.Secrets()
	return secrets
}
