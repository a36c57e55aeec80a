// Package firewall writes and reads iptables chains and bridge-family tables of
// ours: chains with the host's own iptables commands, tables and removals by netlink.
//
// It never decides what a chain holds, and it never touches a rule that is not in
// a chain of ours or a jump into one: chains ES-* and ES<n>-*, tables es<n>.
package firewall
