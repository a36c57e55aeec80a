// Package console owns what a debug shell asks of a running node and may do to it (docs/adr/0095): it answers the
// operations of pubsub/shellproto from the census of the actors and from topics, and audits what changes something.
//
// It never decides who may do that, which is the gateway's, and keeps no state: what a shell does not read is dropped
// with a count.
//
// Read console.go first.
package console
