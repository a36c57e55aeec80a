package netstate

// LinkCounters are what a link has carried since it exists.
type LinkCounters struct{ Received, Sent LinkTraffic }

// LinkTraffic is what a link has carried in one direction.
type LinkTraffic struct{ Bytes, Packets, Errors, Drops uint64 }

// Reversed returns the counters as the other end of the link has them.
func (c LinkCounters) Reversed() LinkCounters { return LinkCounters{c.Sent, c.Received} }

// HelperUsage is what all processes of one program use.
type HelperUsage struct {
	Program   string
	Processes int
	Memory    int64 // bytes, with shared memory
}
