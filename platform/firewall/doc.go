// Package firewall writes and reads edgespan's iptables chains, chains ES-* and ES<n>-*, and its nftables
// tables. It writes chains with the host's own iptables commands, and writes tables and removes everything by netlink.
//
// It never decides which rules a chain holds, and it never touches a rule that is neither in one of these chains nor a
// jump into one.
//
// Read firewall.go first (Apply, Remove), then restore.go (the text of a change) and observe.go.
package firewall
