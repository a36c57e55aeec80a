package clitest

import (
	"context"

	"edgespan/config/fleet/bisect"
	"edgespan/config/httpapi/fleetapi"
)

// StartBisect begins the first of Searches.
func (f *FleetBackend) StartBisect(_ context.Context, _ fleetapi.Caller, q bisect.Request) (fleetapi.Bisect, error) {
	if err := f.note("bisect %+v", q); err != nil {
		return fleetapi.Bisect{}, err
	}
	return f.Searches[0], nil
}

// Bisects returns the first of Searches, and drops it unless it is the last.
func (f *FleetBackend) Bisects(context.Context) ([]fleetapi.Bisect, error) {
	err := f.note("bisects")
	if len(f.Searches) == 0 {
		return nil, err
	}
	out := f.Searches[:1]
	f.Searches = f.Searches[min(1, len(f.Searches)-1):]
	return out, err
}

func (f *FleetBackend) AbortBisect(_ context.Context, _ fleetapi.Caller, node string) error {
	return f.note("bisect abort %s", node)
}
