package fleetapi

import (
	"reflect"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/fleet/history"
)

// TestAnEmptyFileIsNotAMissingOne sends files both ways: {} clears a layer, and a file that
// there is not changes nothing.
func TestAnEmptyFileIsNotAMissingOne(t *testing.T) {
	in := history.Files{Network: config.Object{}, Nodes: config.Object{"n": config.Object{}},
		E2E: map[string]config.Object{"controller": {}}}
	const want = `{"network":{},"nodes":{"n":{}},"e2e":{"controller":{}}}`
	request, err := encode(FromHistory(in))
	if err != nil || strings.TrimSpace(string(request)) != want {
		t.Errorf("in a request: %s, %v", request, err)
	}
	answer, err := encode(fillEmpty(reflect.ValueOf(FromHistory(in))).Interface())
	if err != nil || strings.TrimSpace(string(answer)) != want {
		t.Errorf("in an answer: %s, %v", answer, err)
	}
	var out Files
	if err := out.UnmarshalJSON(answer); err != nil || !reflect.DeepEqual(out.History(), in) {
		t.Errorf("%+v, %v", out, err)
	}
}
