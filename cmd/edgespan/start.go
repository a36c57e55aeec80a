package main

import (
	"context"
	"errors"

	"go.uber.org/zap"
)

// startNode wires platform and actors.
func startNode(context.Context, nodeOptions, *zap.Logger) (daemon, error) {
	return nil, errors.New("this build has no actor tree")
}
