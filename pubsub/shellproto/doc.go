// Package shellproto owns what the debug shell asks of a daemon and what it gets: requests, frames, and the answer of
// each operation. It is pure.
//
// It never knows how they travel: on the node they do by actor remoting (actors/shell), and through a controller as
// JSON lines of a relay.
package shellproto
