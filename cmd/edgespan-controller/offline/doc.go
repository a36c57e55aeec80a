// Package offline is the commands beside a controller: import and export of the original's files, backup and restore,
// tokens and invitations, the rotation of a CA, and the reading of the audit log.
//
// What they ask goes to a running controller over REST, or to the store itself while no controller holds it: then a
// controller that speaks to nobody, serve.OpenFleet, judges it. Neither path knows more than the other; nothing here
// judges a write.
//
// Read first: office.go, then files.go and restore.go.
package offline
