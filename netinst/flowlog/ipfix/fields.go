package ipfix

// Information elements of the IANA registry "IPFIX Information Elements". Lengths are in octets.
const (
	octetDeltaCount          = 1
	packetDeltaCount         = 2
	protocolIdentifier       = 4
	sourceTransportPort      = 7
	sourceIPv4Address        = 8
	destinationTransportPort = 11
	destinationIPv4Address   = 12
	sourceIPv6Address        = 27
	destinationIPv6Address   = 28
	interfaceName            = 82
	forwardingStatus         = 89
	applicationName          = 96
	flowEndReason            = 136
	flowStartMilliseconds    = 152
	flowEndMilliseconds      = 153
	postNATSourceIPv4        = 225
	postNATDestinationIPv4   = 226
	postNAPTSourcePort       = 227
	postNAPTDestinationPort  = 228
	firewallEvent            = 233
	biflowDirection          = 239
	postNATSourceIPv6        = 281
	postNATDestinationIPv6   = 282
	selectorName             = 335

	// reversePEN is the enterprise number of the elements of a biflow's other direction (RFC 5103 §6.1).
	reversePEN = 29305
	// variable is the length of a field that has its length in the record (RFC 7011 §7).
	variable = 65535
)

// The templates; sets below 256 are reserved (RFC 7011 §3.3.2).
const (
	templateSet = 2
	template4   = 256
	template6   = 257
)

// field is one field of a template; with reverse, of a biflow's other direction.
type field struct {
	element, length uint16
	reverse         bool
}

// fields returns the fields of a template, in the order in which appendFields has them.
func fields(template uint16) []field {
	address, source, destination := uint16(4), uint16(sourceIPv4Address), uint16(destinationIPv4Address)
	natSource, natDestination := uint16(postNATSourceIPv4), uint16(postNATDestinationIPv4)
	if template == template6 {
		address, source, destination = 16, sourceIPv6Address, destinationIPv6Address
		natSource, natDestination = postNATSourceIPv6, postNATDestinationIPv6
	}
	return []field{
		{element: flowStartMilliseconds, length: 8}, {element: flowEndMilliseconds, length: 8},
		{element: source, length: address}, {element: destination, length: address},
		{element: natSource, length: address}, {element: natDestination, length: address},
		{element: sourceTransportPort, length: 2}, {element: destinationTransportPort, length: 2},
		{element: postNAPTSourcePort, length: 2}, {element: postNAPTDestinationPort, length: 2},
		{element: octetDeltaCount, length: 8}, {element: packetDeltaCount, length: 8},
		{element: octetDeltaCount, length: 8, reverse: true}, {element: packetDeltaCount, length: 8, reverse: true},
		{element: protocolIdentifier, length: 1}, {element: biflowDirection, length: 1},
		{element: flowEndReason, length: 1}, {element: firewallEvent, length: 1}, {element: forwardingStatus, length: 1},
		{element: interfaceName, length: variable}, {element: applicationName, length: variable},
		{element: selectorName, length: variable},
	}
}

// Values of fields, by the same registry.
const (
	initiator = 1 // biflowDirection: the source began the flow

	endIdle   = 1 // flowEndReason
	endActive = 2
	endSeen   = 3
	endForced = 4

	flowDeleted = 2 // firewallEvent
	flowDenied  = 3
	flowUpdate  = 5

	forwarded  = 64  // forwardingStatus
	droppedACL = 129 // dropped, ACL deny
)
