// Package configdbcli is the command `config` and the groups env, comp, def and lvl: what an
// operator reads and changes of ConfigDB, and the import, export and check of a tree of files.
//
// It never judges a value or a name: the controller does, and this package shows what it said.
// It asks the ConfigDB that target.go finds, which may be the one of Keystone's catalog.
//
// Read first: commands.go, then target.go.
package configdbcli
