// Package optimize owns the four assignments of the seed over a topology: the polarity and the
// channel of every radio, the golay code and the control superframe of every link. It answers
// with the auto layer that carries them, and with what changed. What a user set stays, or is
// cleared when that is asked for.
//
// It never reads a file, never guesses by a random number, and never gives up a user's value
// unasked: what can't be had is a fault that names the values and links in conflict. Equal
// input gives equal output in whatever order nodes and links are listed, and its own output
// put in again changes nothing.
//
// Read first: optimize.go.
package optimize
