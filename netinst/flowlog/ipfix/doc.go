// Package ipfix is the pure encoder of the flow log's export as IPFIX (RFC 7011): templates, data records, and messages
// of a bounded size. A flow is one record with the counts of both directions (RFC 5103), as netinst/flowlog has it.
//
// It sends nothing and has no clock. It never decides which flows are exported, and it decodes nothing.
//
// Read fields.go first, the templates, then ipfix.go.
package ipfix
