// Package action owns a node's actions after a change of its config: the steps for the actions of a difference, in
// their order, through the table of this node's commands for each name; and the parsing of the table's file,
// actions.yaml.
//
// It never runs a step, and never knows a service that the table does not name.
//
// Read table.go first, then plan.go.
package action
