// Package optimize owns the four assignments of the seed over a topology: the polarity and the channel of every radio,
// the golay code and the control superframe of every link. It returns the auto layer that carries them, and the
// changes. It keeps users' values unless the request clears them.
//
// It never reads a file, never uses random numbers, and never drops a user's value unasked: an impossible assignment is
// a fault that names the values and links in conflict. Equal input gives equal output in whatever order nodes and links
// are listed, and applying it to its own output changes nothing.
//
// Read optimize.go first.
package optimize
