// Package relay is both ends of relays: bytes that go both ways beside the other messages of a node's stream
// (config/fleet/nodeproto.Relay). Hub is the controller's end, which opens them, and Server the node's, which answers
// them by their kind.
//
// A relay is no actor: its bytes go from the reader of a stream to the goroutine of an HTTP request or of a handler,
// and neither waits for the other beyond the window of config/fleet/relayflow. It ends with its stream, with the
// context of either end, and with a message of either side. Relays are bounded by number and
// kind, and never store their bytes.
package relay
