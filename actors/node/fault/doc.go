// Package fault owns faults that an operator injects into a running node for a while (docs/adr/0095): commands of one
// network that hang or fail, probes that nothing answers, a slow disk. They sit between the actors and the platform,
// where the weather is.
//
// It never lets a fault outlive its time, and a daemon that was started without faults has none of this code on its
// way.
package fault
