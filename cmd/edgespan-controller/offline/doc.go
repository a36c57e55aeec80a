// Package offline implements the commands that administer a fleet: import and export of the original's files, backup
// and restore, tokens and invitations, the rotation of a CA, and reading the audit log.
//
// A command asks a running controller through the API, or works on the store while no controller runs on it. In the
// second case it starts a controller without APIs, serve.OpenFleet. Both ways have the same abilities; this package
// never validates a write.
//
// Read first: admin.go, then files.go and restore.go.
package offline
