// Package verdict is the pure core that answers what becomes of the first packet of a flow: allowed, denied or
// translated, by which rule or built-in check, where it goes, by which route and port, and as whose address. It owns
// the World (all that the answer depends on), the Packet, and the Answer. It also compares two worlds: which flows one
// of them allows and the other denies (Compare).
//
// It follows the text of docs/configuration.md, and shares no code with the generator of chains in package netinst,
// only its types: a test with real packets compares the two. It knows no chain, and it does not model what depends on
// the past: replies, which pass, and limits, within which each packet is (Check.Limit).
//
// Read verdict.go first, then app.go and ipv6.go, and compare.go.
package verdict
