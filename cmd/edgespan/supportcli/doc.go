// Package supportcli is the command `support`: it makes a support archive of a node, with or without an answer of its
// daemon.
//
// It chooses the parts and their order (first the configs, whose secrets all later parts must not show);
// platform/support collects and writes them, and config/layers/redact removes the secrets. The daemon runs this
// command, too, when its controller asks for an archive, so that the daemon itself holds nothing of it. It never
// changes anything.
package supportcli
