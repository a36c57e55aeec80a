// Package configdbcli implements the command `config` and the groups env, comp, def and lvl: they read and change the
// contents of ConfigDB, and import, export and check a tree of files.
//
// It never validates a value or a name: the controller does, and this package prints the result. target.go finds the
// ConfigDB, which may be the one of Keystone's catalog.
//
// Read first: commands.go, then target.go.
package configdbcli
