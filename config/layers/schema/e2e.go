package schema

import (
	"embed"

	"edgespan/config"
)

//go:embed controller_metadata.json aggregator_metadata.json e2e
var e2eFiles embed.FS

// These are read where they are asked for: a node never does.

// ControllerMetadata is the metadata of the controller's configuration. Names, defaults
// and units of flags are the original's where the controller has what they are about.
// Flags of its peer election and of its files of layers have no meaning here: replicas
// share a store (ADR 0014).
func ControllerMetadata() config.Object { return readFrom(e2eFiles, "controller_metadata.json") }

// AggregatorMetadata is that of the aggregator, whose file is kept and checked for one.
func AggregatorMetadata() config.Object { return readFrom(e2eFiles, "aggregator_metadata.json") }

// ControllerDefault is a controller's configuration with each field at its default: what
// counts for a flag that a file does not have.
func ControllerDefault() config.Object { return readFrom(e2eFiles, "e2e/controller_config.json") }

// AggregatorDefault is that of an aggregator.
func AggregatorDefault() config.Object { return readFrom(e2eFiles, "e2e/aggregator_config.json") }
