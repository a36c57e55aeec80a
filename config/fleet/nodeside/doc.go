// Package nodeside owns what a node reports to its controller in addition to its state: the actions that a document
// would entail, its hardware, its ports, and the results of actions, in the messages of nodeproto.
//
// It never sends anything, and decides on no config.
//
// Read nodeside.go first.
package nodeside
