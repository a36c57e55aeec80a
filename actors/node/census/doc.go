// Package census owns what is known of each actor of a tree from outside it: its state, crashes and mailbox, the
// message that it handles now, and, for a debug shell, its messages and effects as they pass (Follow), the steps of
// changes (Trace) and its state as data (Ask).
//
// It never decides anything, and an actor behaves the same whether somebody looks or not. While no shell follows
// messages, one costs a load of an atomic more than its counts.
//
// Read census.go first.
package census
