// Package firewall writes and reads iptables chains and bridge-family tables of
// ours with the host's own iptables and nft commands.
//
// It never decides what a chain holds, and it never touches a rule that is not in
// a chain of ours or a jump into one: chains ES-* and ES<n>-*, tables es<n>.
package firewall
