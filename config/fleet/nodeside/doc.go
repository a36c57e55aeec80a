// Package nodeside owns what a node tells its controller beside its state: the actions that a document would entail,
// what there is to be learnt of its hardware, its ports, and the results of actions, in the words of nodeproto.
//
// It never sends anything, and decides on no config.
//
// Read first: nodeside.go.
package nodeside
