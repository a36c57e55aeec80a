// Package addressing is the pure core of the ports' own addressing: which addresses and default routes edgespan sets on
// the interfaces of ports that the config does not leave to other programs, and when it applies them.
//
// It never touches the host, a clock or a random source, and knows nothing of networks: they use a port with addressing
// static as they use one that another program has set up.
//
// Read desired.go first, then machine.go.
package addressing
