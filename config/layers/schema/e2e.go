package schema

import (
	"embed"

	"edgespan/config"
)

//go:embed controller_metadata.json aggregator_metadata.json e2e
var e2eFiles embed.FS

// The functions below parse their files on each call, since a node never needs them.

// ControllerMetadata returns the metadata of the controller's configuration. Names, defaults and units of flags are the
// original's for features that the controller has. Flags of the original's peer election and layer files are missing:
// replicas share a store (ADR 0014).
func ControllerMetadata() config.Object { return readFrom(e2eFiles, "controller_metadata.json") }

// AggregatorMetadata returns the metadata of an aggregator's configuration, which the controller stores and validates.
func AggregatorMetadata() config.Object { return readFrom(e2eFiles, "aggregator_metadata.json") }

// ControllerDefault returns a controller's configuration with all defaults, which apply to flags that a file omits.
func ControllerDefault() config.Object { return readFrom(e2eFiles, "e2e/controller_config.json") }

// AggregatorDefault returns an aggregator's configuration with all defaults.
func AggregatorDefault() config.Object { return readFrom(e2eFiles, "e2e/aggregator_config.json") }
