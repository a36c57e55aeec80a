// Package action owns what a node does after a config changed: which steps the actions of
// the difference come to, in their order, through the table of what this node has for each
// name; and how the table's file, actions.yaml, is read.
//
// It never runs a step, and never knows a service that the table does not name.
//
// Read first: table.go, then plan.go.
package action
