// Package support writes support archives: a compressed tar of parts, each collected within its own time and size,
// redacted, and listed in an index that also says what is missing and why. It has the parts that can be known of a
// node from outside its daemon: its host, its processes, its log.
//
// It never decides what is secret (config/layers/redact does), never changes anything, and never reads an environment,
// a key or a token.
package support
